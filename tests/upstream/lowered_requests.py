"""Builders of lowered requests, and what a dialect made of them."""

from typing import Any

from gateway.upstream.dialect import make_dialect
from gateway.upstream.profiles import Profile, load_profile
from gateway.wire.json import loads

JSON = dict[str, Any]

PNG = "data:image/png;base64,AAAA"
IMAGE = {"type": "input_image", "image_url": PNG, "detail": "high"}
FILE = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,AAAA"}


def message(role: str, *content: Any) -> JSON:
    """A message of one string, or of parts."""
    if len(content) == 1 and isinstance(content[0], str):
        return {"type": "message", "role": role, "content": content[0]}
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": part} if isinstance(part, str) else part for part in content]
    return {"type": "message", "role": role, "content": parts}


def user(*content: Any) -> JSON:
    return message("user", *content)


def assistant(*content: Any) -> JSON:
    return message("assistant", *content)


def call(call_id: str, name: str = "f", arguments: Any = "{}") -> JSON:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, output: Any = "ok") -> JSON:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def reasoning(text: str = "", **others: Any) -> JSON:
    content = [{"type": "reasoning_text", "text": text}] if text else None
    return {"type": "reasoning", "summary": [], "content": content, **others}


def function(name: str = "f", **others: Any) -> JSON:
    return {"type": "function", "name": name, "description": "d", "parameters": {}, **others}


def lowered(*items: JSON, **fields: Any) -> JSON:
    return {"model": "m", "stream": True, "input": list(items), **fields}


def encode(profile: Profile | str, request: JSON, **overrides: Any) -> Any:
    """The body that this server gets, decoded."""
    if isinstance(profile, str):
        profile = load_profile(profile, overrides)
    return loads(make_dialect(profile).encode(request))


def messages(profile: Profile | str, *items: JSON, **overrides: Any) -> list[JSON]:
    """The chat messages of a history."""
    body = encode(profile, lowered(*items), **{"dialect": "chat", **overrides})
    found: list[JSON] = body["messages"]
    return found


def input_of(profile: Profile | str, *items: JSON, **overrides: Any) -> list[JSON]:
    """The input items of a history."""
    body = encode(profile, lowered(*items), **{"dialect": "responses", **overrides})
    found: list[JSON] = body["input"]
    return found
