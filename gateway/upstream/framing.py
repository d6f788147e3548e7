"""Bytes of an answer become payloads: the data of each SSE event, or one whole JSON body.

What the answer is, its first bytes decide before its content type does: servers send a JSON error
where a stream was asked for (Q8), a stream where none was (Q9), and the wrong type with either.
"""

import json
from typing import Any

from gateway.wire.json import JSON, MalformedJSON, dumps, loads
from gateway.wire.sse import SSEDecoder, SSEEvent

# As many bytes as the longest of `_SSE_FIELDS` are needed to decide.
_SSE_FIELDS = (b":", b"id:", b"data:", b"event:", b"retry:")
_DECIDING_BYTES = 6
# What begins like this is a document, never a line of an event stream.
_DOCUMENT = (b"{", b"[", b"<", b'"')


class Framing:
    """Feed it chunks; it returns what they complete. A whole body comes out of `finish`."""

    def __init__(self, content_type: str) -> None:
        self.is_body = False
        self._says_sse = "event-stream" in content_type.lower()
        self._sse: SSEDecoder | None = None
        self._body: list[bytes] = []

    def feed(self, chunk: bytes) -> list[SSEEvent]:
        """Events that the chunk completes."""
        if self._sse is not None:
            return self._sse.feed(chunk)
        self._body.append(chunk)
        if self.is_body:
            return []
        head = self._head()
        if len(head) < _DECIDING_BYTES and not head.startswith(_DOCUMENT):
            return []
        return self._decide(head)

    def finish(self) -> list[SSEEvent]:
        """Events at the end; of a whole body, one that holds it all."""
        events: list[SSEEvent] = []
        if self._sse is None and not self.is_body:
            events = self._decide(self._head())
        if self._sse is not None:
            return events + self._sse.finish()
        text = b"".join(self._body).decode("utf-8-sig", "replace").strip()
        self._body.clear()
        return [SSEEvent(None, text)] if text else []

    def _head(self) -> bytes:
        return b"".join(self._body).removeprefix(b"\xef\xbb\xbf").lstrip()

    def _decide(self, head: bytes) -> list[SSEEvent]:
        is_sse = head.startswith(_SSE_FIELDS) or (self._says_sse and not head.startswith(_DOCUMENT))
        if not is_sse:
            self.is_body = True
            return []
        self._sse = SSEDecoder()
        fed = b"".join(self._body)
        self._body.clear()
        return self._sse.feed(fed)


def decode(data: str) -> Any:
    """One payload, mended where it needs that.

    Raises:
        MalformedJSON: it is no JSON even so.
    """
    try:
        return loads(data)
    except MalformedJSON:
        return decode_mended(data)


def decode_mended(data: str) -> Any:
    """One payload that is no JSON as it stands: half a surrogate pair or a raw control character is mended.

    Raises:
        MalformedJSON: it is no JSON even so.
    """
    try:
        return loads(dumps(_mend(json.loads(data, strict=False))))
    except (ValueError, RecursionError) as error:
        raise MalformedJSON(str(error)) from error


def _mend(value: Any) -> Any:
    """The value with strings of whole characters: halves of a pair are joined, or become U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mend(member) for member in value]
    if isinstance(value, dict):
        mended: JSON = {_mend(key): _mend(member) for key, member in value.items()}
        return mended
    return value
