"""Writes requests to /responses of servers that know function tools only.

Always the whole history: vLLM's store loses earlier calls, others have none, so no
`previous_response_id`. The answers are read by `responses_stream`.
"""

from collections.abc import Callable
from typing import Any

from gateway.errors import RequestError
from gateway.upstream.call_ids import FORMS, CallIds
from gateway.upstream.chat_messages import object_text, reasoning_text
from gateway.upstream.parts import TEXT_FIELDS, check_part, text_of
from gateway.upstream.profiles import Profile
from gateway.upstream.replay import SYSTEM_ROLES, Replay, lead
from gateway.upstream.request_fields import responses_fields
from gateway.upstream.responses_stream import ResponsesReader
from gateway.upstream.schema import choose, functions
from gateway.wire.json import JSON, dumps


class ResponsesDialect:
    """The Responses API as local servers have it."""

    path = "/responses"

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def encode(self, lowered: JSON) -> bytes:
        """The body for this server; `input` is its last key.

        Raises:
            RequestError: the request has something that this server cannot carry.
        """
        profile = self._profile
        # Always said: transformers serve streams when it is not.
        stream = lowered["stream"] and profile.stream
        head: JSON = {"model": lowered["model"], "stream": stream}
        head |= responses_fields(lowered, profile)
        head |= self._tools(lowered)
        items = input_items(lowered, profile)
        if profile.instructions == "field" and _begins_with_instructions(lowered, items, profile):
            head["instructions"] = items[0]["content"]
            items = items[1:]
        return dumps({**head, "input": items})

    def reader(self, content_type: str) -> ResponsesReader:
        """A reader for one answer of that content type."""
        return ResponsesReader(self._profile, content_type)

    def _tools(self, lowered: JSON) -> JSON:
        profile = self._profile
        tools: list[JSON] = lowered.get("tools") or []
        hosted: list[JSON] = []
        if profile.hosted == "pass":  # else `functions` refuses them with words
            hosted = [tool for tool in tools if tool.get("type") != "function"]
            tools = [tool for tool in tools if tool.get("type") == "function"]
        declared = functions({"tools": tools}, profile)
        typed = [{"type": "function", **tool} for tool in declared]
        sent, choice = choose(lowered, typed + hosted, profile)
        head: JSON = {}
        if sent:
            head["tools"] = sent
            if choice is not None:
                head["tool_choice"] = choice
            parallel = lowered.get("parallel_tool_calls")
            if parallel is not None and profile.parallel_tool_calls:
                head["parallel_tool_calls"] = parallel
        return head


def input_items(lowered: JSON, profile: Profile) -> list[JSON]:
    """The cleaned history, leading system messages included.

    Raises:
        RequestError: an item that this server cannot carry, or nothing to answer at all.
    """
    system, items = lead(lowered, profile)
    replay = Replay(profile, can_pass=True)
    clean = _Cleaner(profile)
    written = [clean(item) for item in system]
    for item in items:
        written += map(clean, replay.add(item))
    replay.close()
    result = [item for item in written if item is not None]
    if not result:
        raise RequestError("There is nothing to answer: 'input' is empty.", param="input")
    if profile.continue_text and _ends_with_model(result[-1]):
        result.append(_message("user", profile.continue_text))
    return result


class _Cleaner:
    """Items with only the fields that this server takes: no ids, no `status` (Q61)."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._call_id: CallIds = FORMS[profile.call_id]()
        self._reasoning = 0

    def __call__(self, item: JSON) -> JSON | None:
        writer = CLEANERS.get(item.get("type", "message"))
        if writer is None:
            return item  # unknown_items = "pass"
        cleaned = writer(self, item)
        if cleaned is None:
            return None
        kept = {
            name: item[name] for name in self._profile.item_fields if item.get(name) is not None
        }
        return {**cleaned, **kept}

    def message(self, item: JSON) -> JSON | None:
        """Roles and parts; the assistant's words are always output_text parts (llama.cpp resp-27)."""
        role, content = item["role"], item["content"]
        if role == "assistant":
            text = text_of(content, between="", where="an assistant message")
            return _message(role, [{"type": "output_text", "text": text}]) if text else None
        if role in SYSTEM_ROLES:
            return _message(role, content) if content else None
        if role != "user":
            raise RequestError(f"Messages of role '{role}' are not supported.", param="input")
        return _message(role, self._input(content)) if content else None

    def call(self, item: JSON) -> JSON:
        """`arguments` is an object's text on every server (Q60)."""
        return {
            "type": "function_call",
            "call_id": self._call_id(item["call_id"]),
            "name": item["name"],
            "arguments": object_text(item["arguments"]),
        }

    def output(self, item: JSON) -> JSON:
        """A string, or parts when the profile takes them."""
        return {
            "type": "function_call_output",
            "call_id": self._call_id(item["call_id"]),
            "output": self._input(item["output"]),
        }

    def reasoning(self, item: JSON) -> JSON | None:
        """A foreign blob is a 400 on vLLM and model input on Ollama: readable text only (Q62)."""
        mode = self._profile.reasoning_items
        if mode == "drop":
            return None
        if mode == "keep":  # not the id: it is ours, the blob belongs to another (OpenAI compares)
            return {key: value for key, value in item.items() if key not in ("id", "status")}
        text = reasoning_text(item)
        if not text:
            return None
        self._reasoning += 1
        # The id is required by the types; it is a number, so that it is the same every turn.
        return {
            "type": "reasoning",
            "id": f"rs_{self._reasoning}",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": text}],
        }

    def _input(self, content: Any) -> Any:
        if isinstance(content, str):
            return content
        parts = []
        for part in content or ():
            check_part(part, self._profile)
            field = TEXT_FIELDS.get(part["type"])
            parts.append({"type": "input_text", "text": part.get(field) or ""} if field else part)
        return parts


CLEANERS: dict[str, Callable[[_Cleaner, JSON], JSON | None]] = {
    "message": _Cleaner.message,
    "function_call": _Cleaner.call,
    "function_call_output": _Cleaner.output,
    "reasoning": _Cleaner.reasoning,
}


def _begins_with_instructions(lowered: JSON, items: list[JSON], profile: Profile) -> bool:
    """Kept system messages stay messages; only what was `instructions` is that again."""
    if profile.system == "keep" and not lowered.get("instructions"):
        return False
    return items[0].get("role") == "system"


def _message(role: str, content: Any) -> JSON:
    return {"type": "message", "role": role, "content": content}


def _ends_with_model(item: JSON) -> bool:
    return item["type"] == "reasoning" or item.get("role") in ("assistant", *SYSTEM_ROLES)
