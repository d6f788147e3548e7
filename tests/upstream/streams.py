"""Answers written by hand for tests: chunks to bytes, bytes through a reader, events checked."""

import json
from typing import Any, NamedTuple

from gateway.upstream.chat_stream import ChatReader
from gateway.upstream.profiles import Profile
from gateway.upstream.responses_stream import ResponsesReader
from tests.upstream.canonical import JSON, check_canonical

SSE = "text/event-stream"


class Answer(NamedTuple):
    """What a reader made of an answer."""

    events: list[JSON]
    items: list[JSON]
    terminal: JSON
    notes: list[str]

    @property
    def ending(self) -> str:
        """`completed`, `failed`, or the reason of an incomplete answer."""
        details = self.terminal["response"].get("incomplete_details")
        return details["reason"] if details else self.terminal["type"].removeprefix("response.")

    @property
    def error(self) -> JSON:
        return self.terminal["response"]["error"]

    @property
    def usage(self) -> JSON | None:
        return self.terminal["response"]["usage"]

    @property
    def text(self) -> str:
        """All visible text."""
        parts = [p for item in self.items if item["type"] == "message" for p in item["content"]]
        return "".join(part.get("text", "") for part in parts)

    @property
    def reasoning(self) -> str:
        found = [item for item in self.items if item["type"] == "reasoning"]
        return "".join(p["text"] for item in found for p in item["content"] + item["summary"])

    @property
    def calls(self) -> list[tuple[str, str]]:
        """(name, arguments) of every call."""
        found = [item for item in self.items if item["type"] == "function_call"]
        return [(item["name"], item["arguments"]) for item in found]

    @property
    def deltas(self) -> list[str]:
        return [event["delta"] for event in self.events if "delta" in event]


def sse(*payloads: Any, done: bool = False) -> bytes:
    """`data:` events; a str goes as it is."""
    texts = [p if isinstance(p, str) else json.dumps(p, ensure_ascii=False) for p in payloads]
    return "".join(f"data: {t}\n\n" for t in [*texts, *(["[DONE]"] if done else [])]).encode()


def read(reader: ChatReader | ResponsesReader, *chunks: bytes) -> Answer:
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    events += reader.finish()
    checked = check_canonical(events)
    assert checked.terminal is not None
    return Answer(events, checked.items, checked.terminal, reader.notes)


def read_chat(*chunks: bytes, content_type: str = SSE, **profile: Any) -> Answer:
    return read(ChatReader(Profile(**profile), content_type), *chunks)


def read_responses(*chunks: bytes, content_type: str = SSE, **profile: Any) -> Answer:
    return read(ResponsesReader(Profile(**profile), content_type), *chunks)


# ---------------------------------------------------------------------------------- chat, in chunks
def delta(finish: str | None = None, **fields: Any) -> JSON:
    """A chat chunk."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(
    arguments: Any = None,
    *,
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
    finish: str | None = None,
) -> JSON:
    """A chat chunk with one entry of `tool_calls`; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    entry: JSON = {"function": {k: v for k, v in function.items() if v is not None}}
    entry |= {k: v for k, v in {"index": index, "id": id}.items() if v is not None}
    return delta(finish, tool_calls=[entry])


def chat(*chunks: Any, finish: str | None = "stop", done: bool = True, **profile: Any) -> Answer:
    """A whole streamed chat answer; its finish chunk is added."""
    end = [delta(finish)] if finish else []
    return read_chat(sse(*chunks, *end, done=done), **profile)


def body(message: JSON, finish: str | None = "stop", **extra: Any) -> bytes:
    """A blocking chat answer."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"object": "chat.completion", "choices": [choice], **extra}).encode()
