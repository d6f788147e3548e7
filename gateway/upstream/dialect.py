"""What a dialect is: one API of a model server, written and read without I/O.

The relay hands a lowered request to `encode` and the bytes of the answer to a `Reader`.
"""

from typing import Protocol

from gateway.upstream.chat import ChatDialect
from gateway.upstream.profiles import Profile
from gateway.upstream.responses import ResponsesDialect
from gateway.wire.json import JSON


class Reader(Protocol):
    """Bytes of one answer in, canonical events out. Any split of the bytes gives the same events."""

    def feed(self, chunk: bytes) -> list[JSON]:
        """Events that `chunk` completes."""
        ...

    def finish(self) -> list[JSON]:
        """Events at the end of the body; after it exactly one terminal event has been given."""
        ...

    @property
    def notes(self) -> list[str]:
        """What was odd in the answer, for the log."""
        ...


class Dialect(Protocol):
    """Writes requests for one server, and makes the readers of its answers."""

    path: str
    """Appended to the upstream's base URL, which ends in `/v1`."""

    def encode(self, lowered: JSON) -> bytes:
        """The body for this server.

        Raises:
            RequestError: the request has something that this server cannot carry.
        """
        ...

    def reader(self, content_type: str) -> Reader:
        """A reader for one answer of that content type."""
        ...


def make_dialect(profile: Profile) -> Dialect:
    """The dialect that `profile` names."""
    return DIALECTS[profile.dialect](profile)


DIALECTS: dict[str, type[ChatDialect] | type[ResponsesDialect]] = {
    "chat": ChatDialect,
    "responses": ResponsesDialect,
}
