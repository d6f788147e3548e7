"""Who else sees a turn: the relay's one hook, for the status page and for recordings.

A watcher is asked at the beginning of each turn and gives a `TurnWatch`, or None when the turn is no
concern of its own. What a watcher does wrong costs its own view of that turn, never the turn.
"""

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
from aiohttp import web

from gateway.turn.history import History
from gateway.turn.turn import Turn
from gateway.wire.json import JSON

if TYPE_CHECKING:
    from gateway.server.target import Target

log = logging.getLogger(__name__)


class Caller(msgspec.Struct, frozen=True):
    """The HTTP request, or the upgrade, by which a turn has come.

    Attributes:
        path: of the request, with its query.
        headers: in their order.
        records: it asks to be recorded, and may.
    """

    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    records: bool = False


# Of this task: lanes and background turns are tasks of their own and inherit it.
CALLER: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039  # frozen


class Begun(msgspec.Struct, frozen=True):
    """A turn at its beginning.

    Attributes:
        request: the checked public request.
        history: what it continues.
        label: transport and id of the connection.
        caller: see `Caller`.
    """

    request: JSON
    history: History
    label: str
    caller: Caller

    @property
    def transport(self) -> str:
        """json, sse or ws."""
        return self.label.partition(" ")[0]


class TurnWatch:
    """Sees one turn. Each method does nothing until it is overridden."""

    # Makes the turn: a recording notes what is put into it.
    make_turn: Callable[..., Turn] | None = None

    def made(self, turn: Turn, target: "Target") -> None:
        """The request has been lowered."""

    def asked(self, path: str, body: bytes) -> None:
        """This goes to the model server."""

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """The model server's status is there."""

    def received(self, chunk: bytes) -> None:
        """A piece of the answer's body, before it is read."""

    def sent(self, events: list[JSON]) -> None:
        """These go to the client now."""

    def ended(self, error: BaseException | None) -> None:
        """The turn is over.

        Args:
            error: with which it left the relay: refused before anything was sent, or the client gone.
        """


Watcher = Callable[[Begun], TurnWatch | None]


class Watching(TurnWatch):
    """All watches of one turn; a context, whose end is the end of the turn."""

    def __init__(self, watches: list[TurnWatch]) -> None:
        self._watches = watches
        makers = [watch.make_turn for watch in watches if watch.make_turn is not None]
        self.new_turn: Callable[..., Turn] = makers[0] if makers else Turn

    def made(self, turn: Turn, target: "Target") -> None:
        self._tell("made", turn, target)

    def asked(self, path: str, body: bytes) -> None:
        self._tell("asked", path, body)

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        self._tell("answered", status, headers)

    def received(self, chunk: bytes) -> None:
        for watch in self._watches:  # once an event, so without the detour by a name
            try:
                watch.received(chunk)
            except Exception:  # an edge, as below
                self._drop(watch)

    def sent(self, events: list[JSON]) -> None:
        for watch in self._watches:
            try:
                watch.sent(events)
            except Exception:  # an edge, as below
                self._drop(watch)

    def ended(self, error: BaseException | None) -> None:
        self._tell("ended", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended(error)

    def _tell(self, what: str, *seen: Any) -> None:
        for watch in self._watches:
            try:
                getattr(watch, what)(*seen)
            except Exception:  # an edge: who only looks must not end what is looked at
                self._drop(watch)

    def _drop(self, watch: TurnWatch) -> None:
        log.exception("a watcher has failed; it sees no more of this turn")
        self._watches = [other for other in self._watches if other is not watch]


NOBODY = Watching([])


class Watchers:
    """Those who want to see turns."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []

    def add(self, watcher: Watcher) -> None:
        """Ask this one as well, from now on."""
        self._watchers.append(watcher)

    def begin(self, request: JSON, history: History, label: str) -> Watching:
        """A turn begins."""
        if not self._watchers:
            return NOBODY
        begun = Begun(request, history, label, CALLER.get())
        watches = []
        for watcher in self._watchers:
            try:
                watch = watcher(begun)
            except Exception:  # an edge, as above
                log.exception("a watcher has failed; it does not see this turn")
                continue
            if watch is not None:
                watches.append(watch)
        return Watching(watches)


class TurnCount(TurnWatch):
    """A watcher that only counts the turns that run."""

    def __init__(self) -> None:
        self.running = 0

    def begin(self, begun: Begun) -> TurnWatch:
        self.running += 1
        return self

    def ended(self, error: BaseException | None) -> None:
        self.running -= 1


def caller_of(request: web.Request, *, records: bool) -> Caller:
    """The caller of a request."""
    return Caller(request.path_qs, tuple(request.headers.items()), records)
