"""JSON in and out: msgspec reads (big integers stay exact), orjson writes (fastest on long bodies).

What `loads` accepts, `dumps` can write again. Everything else is `MalformedJSON`, whatever the
library underneath calls it: a model's argument string with half a surrogate pair takes the same
path as one with a missing brace. Why two libraries: docs/decisions/0002.
"""

from typing import Any

import msgspec
import orjson

JSON = dict[str, Any]

# orjson stops at 254 levels, msgspec and Python's own stack at about 1000. No request or schema
# that we have seen is deeper than 30; what remains leaves room for wrapping an item into an event.
MAX_DEPTH = 200
# A text that long is a history: it has more openers than that, so that it would be walked after the counting.
UNCOUNTED_CHARS = 100_000

_decode = msgspec.json.Decoder().decode
_encode_exact = msgspec.json.Encoder().encode


class MalformedJSON(ValueError):
    """The text is not JSON, or not JSON that could be written again."""


def loads(data: bytes | str) -> Any:
    """Decode one JSON text.

    Raises:
        MalformedJSON: syntax, NaN, numbers out of range, lone surrogates, invalid UTF-8, too deep.
    """
    try:
        value = _decode(data)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise MalformedJSON(str(error)) from error
    # (Each level takes two characters, so most events need not even be asked about.)
    if len(data) > 2 * MAX_DEPTH and _may_be_deep(data) and _is_too_deep(value):
        raise MalformedJSON(f"JSON is nested deeper than {MAX_DEPTH} levels")
    return value


def dumps(obj: Any) -> bytes:
    """Encode compactly.

    Raises:
        MalformedJSON: a string holds a lone surrogate, or an object is not JSON at all.
    """
    try:
        return orjson.dumps(obj)
    except TypeError:
        pass  # an integer beyond 64 bits, or no JSON; msgspec knows which
    try:
        return _encode_exact(obj)
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedJSON(str(error)) from error


def dumps_str(obj: Any) -> str:
    """Encode compactly, as text: for JSON inside JSON (`arguments`)."""
    return dumps(obj).decode()


def _may_be_deep(data: bytes | str) -> bool:
    """Whether the text must be walked: counting openers is cheaper, except where there are many in any case."""
    if len(data) >= UNCOUNTED_CHARS:
        return True
    if isinstance(data, str):
        return data.count("[") + data.count("{") > MAX_DEPTH
    return data.count(b"[") + data.count(b"{") > MAX_DEPTH


def _is_too_deep(value: Any) -> bool:
    """Walk level by level: no recursion, and a wide text costs one pass over its containers."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True
