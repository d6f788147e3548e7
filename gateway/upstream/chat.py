"""Writes requests to /chat/completions; the answers are read by `chat_stream`.

The messages come last, so that a grown history only extends the bytes before the closing brackets.
"""

from gateway.upstream.chat_messages import chat_messages
from gateway.upstream.chat_stream import ChatReader
from gateway.upstream.profiles import Profile
from gateway.upstream.request_fields import chat_fields
from gateway.upstream.schema import choose, functions
from gateway.wire.json import JSON, dumps


class ChatDialect:
    """The API that every model server has."""

    path = "/chat/completions"

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def encode(self, lowered: JSON) -> bytes:
        """The body for this server, whole: mlx-lm answers 411 to a chunked one (Q57).

        Raises:
            RequestError: the request has something that this server cannot carry.
        """
        messages = chat_messages(lowered, self._profile)
        return dumps({**self._head(lowered), "messages": messages})

    def reader(self, content_type: str) -> ChatReader:
        """A reader for one answer of that content type."""
        return ChatReader(self._profile, content_type)

    def _head(self, lowered: JSON) -> JSON:
        """Everything but the messages, in a fixed order."""
        profile = self._profile
        # Always said: transformers serve streams when it is not.
        stream = lowered["stream"] and profile.stream
        head: JSON = {"model": lowered["model"], "stream": stream}
        if stream and profile.usage:
            head["stream_options"] = {"include_usage": True}
        head |= chat_fields(lowered, profile)
        tools, choice = choose(lowered, functions(lowered, profile), profile)
        if tools:
            head["tools"] = [{"type": "function", "function": tool} for tool in tools]
            if choice is not None:
                head["tool_choice"] = _chat_choice(choice)
            parallel = lowered.get("parallel_tool_calls")
            if parallel is not None and profile.parallel_tool_calls:
                head["parallel_tool_calls"] = parallel
        return head


def _chat_choice(choice: str | JSON) -> str | JSON:
    if isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice["name"]}}
