"""What reading an answer means in every dialect: bytes to JSON objects, and an end that is never silent.

A dialect's reader says what one object means (`_read`), what `[DONE]` means and what the end of the
body means. Pure: no clock, no I/O.
"""

from abc import ABC, abstractmethod

from gateway.upstream.assembly import ENDED_EARLY, Assembly
from gateway.upstream.errors import find_error, read_fault, read_text
from gateway.upstream.framing import Framing, decode_mended
from gateway.wire.json import JSON, MalformedJSON, loads
from gateway.wire.sse import SSETooLarge


class AnswerReader(ABC):
    """Bytes of one answer -> canonical events. Any split of the bytes gives the same events."""

    def __init__(self, content_type: str) -> None:
        self._framing = Framing(content_type)
        self._assembly = Assembly()
        self._is_answered = False  # something of an answer was understood

    @property
    def notes(self) -> list[str]:
        """Oddities of the server, for the log."""
        return self._assembly.notes

    def feed(self, chunk: bytes) -> list[JSON]:
        """Events that `chunk` completes."""
        try:
            for event in self._framing.feed(chunk):
                self._payload(event.event, event.data)
        except SSETooLarge as error:
            self._assembly.fail(None, f"The upstream's stream cannot be read: {error}.")
        return self._assembly.events()

    def finish(self) -> list[JSON]:
        """Events at the end of the body; after it exactly one terminal event has been given."""
        try:
            for event in self._framing.finish():
                self._payload(event.event, event.data)
        except SSETooLarge as error:
            self._assembly.fail(None, f"The upstream's stream cannot be read: {error}.")
        self._on_end_of_body()
        if not self._is_answered and self.notes:
            self._assembly.fail(None, f"The upstream's answer cannot be read: {self.notes[0]}.")
        self._assembly.fail(None, ENDED_EARLY)  # Q5; behind a terminal event it says nothing
        return self._assembly.events()

    # ------------------------------------------------------------------------------ for the dialect
    @abstractmethod
    def _read(self, name: str | None, payload: JSON) -> None:
        """One object: a stream's event (with the name of its `event:` line) or the whole body."""

    @abstractmethod
    def _on_done_marker(self) -> None:
        """`[DONE]` (Q5)."""

    @abstractmethod
    def _on_end_of_body(self) -> None:
        """The body is over; without a terminal event the answer fails now."""

    def _fail_with(self, payload: JSON) -> None:
        """End the answer with the error that a payload reports (Q4)."""
        fault = read_fault(find_error(payload) or payload)
        self._assembly.fail(fault.code, fault.message)

    def _skip(self, payload: JSON) -> None:
        """An object that means nothing; as a whole body it says at least why."""
        if self._framing.is_body:
            self._fail_with(payload)
        else:
            keys = ", ".join(map(repr, payload))
            self._assembly.note(f"an object with the keys {keys or 'of none'}")

    # ------------------------------------------------------------------------------------- payloads
    def _payload(self, name: str | None, data: str) -> None:
        if data == "[DONE]":
            self._on_done_marker()
            return
        try:
            payload = loads(data)
        except MalformedJSON:
            try:
                payload = decode_mended(data)
            except MalformedJSON as error:
                self._unreadable(data, str(error))
                return
        if type(payload) is dict:
            self._read(name, payload)
        else:
            self._unreadable(data, f"{type(payload).__name__} instead of an object")

    def _unreadable(self, data: str, reason: str) -> None:
        if self._framing.is_body:
            fault = read_text(data)
            self._assembly.fail(fault.code, fault.message)
        else:  # the stream goes on if it can
            self._assembly.note(f"{len(data)} characters that are no event ({reason})")
