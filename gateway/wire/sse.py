"""Server-sent events: bytes cut anywhere become events, and our own events become bytes.

Follows the WHATWG parsing rules, with one exception that servers need: a last event whose blank
line is missing is delivered at the end of the stream. `id` and `retry` are of no use here.

How it is fast: line ends are made equal per chunk, then everything up to the last blank line is
decoded and split by the string methods. No Python code runs per byte, per event only a few lines.
Cutting at line feeds before decoding is safe, since no UTF-8 sequence contains one.
"""

from functools import lru_cache

import msgspec

from gateway.wire.json import JSON, dumps

# The largest message that the Codex CLI itself takes. A server that sends more without a blank line
# is broken, and it must not fill our memory.
MAX_SSE_EVENT_BYTES = 64 * 1024 * 1024

_BLANK_LINE = b"\n\n"


class SSETooLarge(ValueError):
    """One event is larger than any real one."""


class SSEEvent(msgspec.Struct, frozen=True, gc=False):
    """One dispatched event. `event` is None when the stream did not name it."""

    event: str | None
    data: str


class SSEDecoder:
    """Feed it the chunks as they come; it returns the events that they complete.

    `comments` counts comment lines (`: keep-alive`): they make no event, yet the server is alive.
    """

    def __init__(self, max_event_bytes: int = MAX_SSE_EVENT_BYTES) -> None:
        self.comments = 0
        self._max_event_bytes = max_event_bytes
        self._pending: list[bytes] = []  # an event that has not ended, in pieces: joined only once
        self._pending_size = 0
        self._after_cr = False  # the last chunk ended in CR; an LF that follows belongs to it
        self._at_start = True  # a byte order mark may come

    def feed(self, chunk: bytes) -> list[SSEEvent]:
        """Events completed by this chunk.

        Raises:
            SSETooLarge: an event exceeds `max_event_bytes`.
        """
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_line_feeds(chunk)
        end = chunk.rfind(_BLANK_LINE)
        if self._pending:
            if end < 0 and not (chunk[:1] == b"\n" and self._pending[-1][-1:] == b"\n"):
                self._keep(chunk)
                return []
            chunk = b"".join([*self._pending, chunk])
            self._pending.clear()
            self._pending_size = 0
            end = chunk.rfind(_BLANK_LINE)
        if end < 0:
            self._keep(chunk)
            return []
        if end + 2 < len(chunk):
            self._keep(chunk[end + 2 :])
        return self._parse(chunk[:end])

    def finish(self) -> list[SSEEvent]:
        """The event that was open when the stream ended, if it has data."""
        rest = b"".join(self._pending)
        self._pending.clear()
        self._pending_size = 0
        return self._parse(rest) if rest else []

    def _with_line_feeds(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pending.append(piece)
        self._pending_size += len(piece)
        # One byte of grace: it may be the first half of the blank line.
        if self._pending_size > self._max_event_bytes + 1:
            raise SSETooLarge(f"an event exceeds {self._max_event_bytes} bytes")

    def _parse(self, block: bytes) -> list[SSEEvent]:
        """Dispatch the complete events of `block`, which blank lines separate."""
        if len(block) > self._max_event_bytes:
            longest = max(map(len, block.split(_BLANK_LINE)))
            if longest > self._max_event_bytes:
                raise SSETooLarge(f"an event exceeds {self._max_event_bytes} bytes")
        text = block.decode("utf-8", "replace")
        if self._at_start:
            text = text.removeprefix("\ufeff")
            self._at_start = False
        events = []
        for raw in text.split("\n\n"):
            if raw.startswith("data: ") and "\n" not in raw:
                events.append(SSEEvent(None, raw[6:]))  # what Chat Completions servers send
            elif (event := self._event(raw)) is not None:
                events.append(event)
        return events

    def _event(self, raw: str) -> SSEEvent | None:
        head, _, rest = raw.partition("\n")
        if head.startswith("event: ") and rest.startswith("data: ") and "\n" not in rest:
            return SSEEvent(head[7:] or None, rest[6:])  # what Responses servers send
        name: str | None = None
        data: str | None = None
        for line in raw.split("\n"):
            field, _, value = line.partition(":")
            if field == "data":
                value = value.removeprefix(" ")
                data = value if data is None else f"{data}\n{value}"
            elif field == "event":
                name = value.removeprefix(" ") or None
            elif not field and line:
                self.comments += 1
        return None if data is None else SSEEvent(name, data)


def encode_event(event: JSON) -> bytes:
    """One whole event, for one write: some clients lose an event that arrives in two."""
    return b"".join((_head(event["type"]), dumps(event), _BLANK_LINE))


@lru_cache(maxsize=256)  # the API has about 60 event types; foreign ones must not fill the memory
def _head(event_type: str) -> bytes:
    """The `event:` line. A type comes from upstream at times: it must not smuggle in a line."""
    return f"event: {' '.join(event_type.splitlines())}\ndata: ".encode()
