"""What the scripted model says, and how a server writes it: chat chunks or Responses events.

An answer is a list of parts (`Text`, `Reasoning`, `Call`); `render_*` gives the pieces of the body,
one piece per event, so that a test can break off or hang between any two of them.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

JSON = dict[str, Any]

# Deltas are cut like this when a part does not say how: small and uneven against every boundary.
PIECE = 7
USAGE = {"input": 11, "cached": 3, "output": 7, "reasoning": 2}


@dataclass(frozen=True)
class Text:
    """Assistant text."""

    text: str
    pieces: Sequence[str] = ()


@dataclass(frozen=True)
class Reasoning:
    """Readable reasoning."""

    text: str


@dataclass(frozen=True)
class Call:
    """A function call; `arguments` is the text as the model writes it, or an object to be encoded.

    `pieces` are the argument fragments as they are sent; `call_id` "" makes one up.
    """

    name: str
    arguments: Any = field(default_factory=dict)
    pieces: Sequence[str] = ()
    call_id: str = ""

    @property
    def text(self) -> str:
        if self.pieces:
            return "".join(self.pieces)
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


Part = Text | Reasoning | Call


@dataclass(frozen=True)
class Answer:
    """A whole answer of the model.

    Attributes:
        parts: what it says, in order; a bare string is text.
        finish: `finish_reason`, "" for stop or tool_calls; length makes a response incomplete.
        usage: the server sends usage.
        hang_after: events after which nothing more comes until `release()`; None never hangs.
        break_after: events after which the connection is dropped; None never breaks.
    """

    parts: Sequence[Part | str]
    finish: str = ""
    usage: bool = True
    hang_after: int | None = None
    break_after: int | None = None


@dataclass(frozen=True)
class Refuse:
    """An error status instead of an answer."""

    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Raw:
    """Bytes as they are: for what no server should send."""

    body: bytes
    content_type: str = "text/event-stream"
    status: int = 200


Reply = Answer | Refuse | Raw


def as_reply(value: Any) -> Reply:
    """Scripts may write a bare text, part or list of parts."""
    if isinstance(value, Answer | Refuse | Raw):
        return value
    if isinstance(value, str):
        return Answer([Text(value)])
    if isinstance(value, bytes):
        return Raw(value)
    if isinstance(value, Text | Reasoning | Call):
        return Answer([value])
    return Answer(list(value))


def hang(parts: Sequence[Part | str] = (), after: int = 1) -> Answer:
    """An answer that stops in the middle until it is released or the client goes away."""
    return Answer(parts or ["thinking about it for a long time"], hang_after=after)


def break_off(parts: Sequence[Part | str], after: int) -> Answer:
    """An answer whose connection is dropped in the middle."""
    return Answer(parts, break_after=after)


def cut(text: str, pieces: Sequence[str] = ()) -> list[str]:
    return list(pieces) or [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def with_ids(answer: Answer, new_id: Callable[[], str]) -> list[Part]:
    """The parts as objects, with every call's id made up where the script left it open."""
    parts = [Text(part) if isinstance(part, str) else part for part in answer.parts]
    return [
        replace(part, call_id=part.call_id or new_id()) if isinstance(part, Call) else part
        for part in parts
    ]


def sse(data: JSON | str, event: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


# ------------------------------------------------------------------------------------------- chat


def chat_usage() -> JSON:
    return {
        "prompt_tokens": USAGE["input"],
        "completion_tokens": USAGE["output"],
        "total_tokens": USAGE["input"] + USAGE["output"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
        "completion_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
    }


def chat_finish(answer: Answer, parts: Sequence[Part]) -> str:
    calls = any(isinstance(part, Call) for part in parts)
    return answer.finish or ("tool_calls" if calls else "stop")


def chat_deltas(parts: Sequence[Part]) -> Iterator[JSON]:
    """The deltas of a real server: role first, names before arguments, arguments in fragments."""
    yield {"role": "assistant", "content": None}
    index = itertools.count()
    for part in parts:
        if isinstance(part, Text):
            yield from ({"content": piece} for piece in cut(part.text, part.pieces))
        elif isinstance(part, Reasoning):
            yield from ({"reasoning_content": piece} for piece in cut(part.text))
        else:
            at = next(index)
            head = {"name": part.name, "arguments": ""}
            yield {
                "tool_calls": [
                    {"index": at, "id": part.call_id, "type": "function", "function": head}
                ]
            }
            for piece in cut(part.text, part.pieces):
                yield {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}


def chat_stream(body: JSON, answer: Answer, parts: Sequence[Part]) -> Iterator[bytes]:
    base = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body["model"],
    }
    for delta in chat_deltas(parts):
        yield sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    finish = chat_finish(answer, parts)
    yield sse({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if answer.usage and (body.get("stream_options") or {}).get("include_usage"):
        yield sse({**base, "choices": [], "usage": chat_usage()})
    yield sse("[DONE]")


def chat_json(body: JSON, answer: Answer, parts: Sequence[Part]) -> JSON:
    def joined(kind: type[Text] | type[Reasoning]) -> str | None:
        return "".join(part.text for part in parts if isinstance(part, kind)) or None

    message: JSON = {"role": "assistant", "content": joined(Text)}
    if reasoning := joined(Reasoning):
        message["reasoning_content"] = reasoning
    calls = [
        {
            "id": part.call_id,
            "type": "function",
            "function": {"name": part.name, "arguments": part.text},
        }
        for part in parts
        if isinstance(part, Call)
    ]
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": chat_finish(answer, parts)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        **({"usage": chat_usage()} if answer.usage else {}),
    }


# -------------------------------------------------------------------------------------- responses


def responses_usage() -> JSON:
    return {
        "input_tokens": USAGE["input"],
        "input_tokens_details": {"cached_tokens": USAGE["cached"]},
        "output_tokens": USAGE["output"],
        "output_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
        "total_tokens": USAGE["input"] + USAGE["output"],
    }


def response_items(answer: Answer, parts: Sequence[Part]) -> list[JSON]:
    items: list[JSON] = []
    for at, part in enumerate(parts):
        # A model that was cut was cut in its last part.
        last = at == len(parts) - 1
        status = "incomplete" if answer.finish == "length" and last else "completed"
        if isinstance(part, Text):
            content = [{"type": "output_text", "text": part.text, "annotations": []}]
            item: JSON = {"type": "message", "role": "assistant", "content": content}
        elif isinstance(part, Reasoning):
            item = {
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": part.text}],
            }
        else:
            item = {
                "type": "function_call",
                "call_id": part.call_id,
                "name": part.name,
                "arguments": part.text,
            }
        items.append({"id": f"item_{at}", **item, "status": status})
    return items


def response_object(body: JSON, status: str, output: Sequence[JSON] = ()) -> JSON:
    """As a function-only server echoes it: lowered tools, its own id."""
    return {
        "id": "resp_upstream",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": body["model"],
        "output": list(output),
        "tools": body.get("tools", []),
        "tool_choice": body.get("tool_choice", "auto"),
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "usage": None,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
    }


def final_response(body: JSON, answer: Answer, parts: Sequence[Part]) -> JSON:
    status = "incomplete" if answer.finish in ("length", "content_filter") else "completed"
    response = response_object(body, status, response_items(answer, parts))
    if status == "incomplete":
        reason = "max_output_tokens" if answer.finish == "length" else "content_filter"
        response = {**response, "incomplete_details": {"reason": reason}}
    return {**response, "usage": responses_usage() if answer.usage else None}


def item_events(at: int, item: JSON, part: Part) -> Iterator[JSON]:
    """Added, deltas, done: in the order and with the fields that OpenAI's server uses."""
    where = {"item_id": item["id"], "output_index": at}
    empty: JSON = {"content": []} if "content" in item else {"arguments": ""}
    started = {**item, "status": "in_progress", **empty}
    yield {"type": "response.output_item.added", "output_index": at, "item": started}
    if isinstance(part, Call):
        kind = "response.function_call_arguments"
        for piece in cut(part.text, part.pieces):
            yield {"type": f"{kind}.delta", **where, "delta": piece}
        yield {"type": f"{kind}.done", **where, "name": part.name, "arguments": part.text}
    else:
        is_text = isinstance(part, Text)
        where = {**where, "content_index": 0}
        content = item["content"][0]
        opened = {**content, "text": ""}
        kind = "response.output_text" if is_text else "response.reasoning_text"
        yield {"type": "response.content_part.added", **where, "part": opened}
        for piece in cut(part.text, part.pieces if isinstance(part, Text) else ()):
            yield {"type": f"{kind}.delta", **where, "delta": piece}
        yield {"type": f"{kind}.done", **where, "text": part.text}
        yield {"type": "response.content_part.done", **where, "part": content}
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def responses_stream(body: JSON, answer: Answer, parts: Sequence[Part]) -> Iterator[bytes]:
    final = final_response(body, answer, parts)
    begun = response_object(body, "in_progress")
    events: list[JSON] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for at, (item, part) in enumerate(zip(final["output"], parts, strict=True)):
        events += item_events(at, item, part)
    events.append({"type": f"response.{final['status']}", "response": final})
    for number, event in enumerate(events):
        yield sse({**event, "sequence_number": number}, event["type"])
