"""The same questions put to the model server itself, read as plainly as can be: who is at fault?

The dialects of the gateway are not used, since a mistake of theirs would then look like the server's.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from gateway.errors import GatewayError
from gateway.upstream.client import UpstreamClient
from gateway.wire.json import JSON, MalformedJSON, dumps, loads
from gateway.wire.sse import SSEDecoder

# Of an answer that is none: enough to recognise it.
SHOWN_CHARS = 200
PATHS = {"chat": "/chat/completions", "responses": "/responses"}


@dataclass(frozen=True)
class Answered:
    """What the server said.

    Attributes:
        status: of HTTP; 0 when there was no answer.
        body: JSON, or None.
        text: the beginning of the body.
        pieces: arrival times of a stream's pieces of text, from the request on.
        is_stream: it answered with an event stream.
        calls: function calls in the answer.
    """

    status: int
    body: Any = None
    text: str = ""
    pieces: tuple[float, ...] = ()
    is_stream: bool = False
    calls: int = 0

    @property
    def input_tokens(self) -> int:
        usage = self.body.get("usage") if isinstance(self.body, dict) else None
        usage = usage if isinstance(usage, dict) else {}
        return int(usage.get("prompt_tokens") or usage.get("input_tokens") or 0)

    @property
    def is_answer(self) -> bool:
        """It is what a model server says when all is well."""
        return self.status == 200 and (
            self.is_stream
            or (isinstance(self.body, dict) and bool({"choices", "output"} & set(self.body)))
        )


class Direct:
    """Questions to the model server.

    Args:
        client: its connections.
        api: chat or responses.
        model: its name there.
    """

    def __init__(self, client: UpstreamClient, api: str, model: str) -> None:
        self._client = client
        self._api = api
        self._model = model

    def of(self, model: str) -> "Direct":
        """The same for another model."""
        return Direct(self._client, self._api, model)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ask(
        self, text: str, tools: list[JSON], *, tokens: int = 16, stream: bool = False
    ) -> Answered:
        """One question, with functions or without."""
        return await self._post(self._body(text, tools, tokens, stream=stream))

    async def route(self, api: str) -> Answered:
        """What an empty request gets on the route of an API: 404 where there is none."""
        other = Direct(self._client, api, self._model)
        return await other._post({})

    def _body(self, text: str, tools: list[JSON], tokens: int, *, stream: bool) -> JSON:
        message = {"role": "user", "content": text}
        body: JSON = {"model": self._model, "stream": stream, "temperature": 0}
        declared: list[JSON]
        if self._api == "chat":
            body |= {"messages": [message], "max_tokens": tokens}
            declared = [{"type": "function", "function": _bare(tool)} for tool in tools]
        else:
            body |= {"input": [{"type": "message", **message}], "max_output_tokens": tokens}
            declared = [{**_bare(tool), "type": "function", "strict": False} for tool in tools]
        return {**body, "tools": declared, "tool_choice": "required"} if declared else body

    async def _post(self, body: JSON) -> Answered:
        begun = time.monotonic()
        try:
            answer = await self._client.open(PATHS[self._api], dumps(body))
            try:
                if answer.content_type == "text/event-stream" and answer.status == 200:
                    pieces, calls = await _follow(answer.chunks(), begun)
                    return Answered(200, pieces=tuple(pieces), is_stream=True, calls=calls)
                raw = await answer.read()
            finally:
                answer.close()
        except GatewayError as error:
            return Answered(0, text=str(error))
        text = raw.decode("utf-8", "replace")
        body = _json(raw)
        shown = " ".join(text.split())[:SHOWN_CHARS]
        return Answered(answer.status, body, shown, calls=len(list(_calls(body))))


async def _follow(chunks: AsyncIterator[bytes], begun: float) -> tuple[list[float], int]:
    """When the chunks with events in them came, and how many function calls began in them."""
    decoder = SSEDecoder()
    times: list[float] = []
    calls = 0
    async for chunk in chunks:
        events = [event.data for event in decoder.feed(chunk) if event.data != "[DONE]"]
        if events:
            times.append(time.monotonic() - begun)
        calls += sum(_begins_call(_json(data.encode())) for data in events)
    return times, calls


def _begins_call(event: Any) -> int:
    """A call's first piece has its name; Responses servers say that an item was added."""
    if not isinstance(event, dict):
        return 0
    if event.get("type") == "response.output_item.added":
        return int((event.get("item") or {}).get("type") == "function_call")
    deltas = [choice.get("delta") or {} for choice in event.get("choices") or ()]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls") or ()]
    return sum(bool((piece.get("function") or {}).get("name")) for piece in pieces)


def _bare(tool: JSON) -> JSON:
    """What both APIs want of a function."""
    return {key: tool[key] for key in ("name", "description", "parameters")}


def _calls(body: Any) -> Any:
    if not isinstance(body, dict):
        return
    for choice in body.get("choices") or ():
        yield from (choice.get("message") or {}).get("tool_calls") or ()
    for item in body.get("output") or ():
        if item.get("type") == "function_call":
            yield item


def _json(raw: bytes) -> Any:
    try:
        return loads(raw)
    except MalformedJSON:
        return None
