"""A turn that notes what is put into it, in order: triggers, ids, clock, sealed texts.

With these and the bytes between them the state machine does the same again (`replaying.py`).
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from gateway.errors import GatewayError
from gateway.turn.compaction import Sealer
from gateway.turn.history import History
from gateway.turn.request import TurnOptions
from gateway.turn.state import TurnState
from gateway.turn.turn import Turn
from gateway.wire.json import JSON


class Note(Protocol):
    """Keeps what has happened."""

    def __call__(self, kind: str, size: int = 0, **fields: Any) -> None: ...


class RecordedTurn(Turn):
    """Args as of `Turn`, and `note`."""

    def __init__(
        self,
        note: Note,
        request: JSON,
        history: History,
        options: TurnOptions,
        new_id: Callable[[str], str],
        now: Callable[[], int],
    ) -> None:
        self._note = note

        def noted_id(prefix: str) -> str:
            id = new_id(prefix)
            note("id", value=id)
            return id

        def noted_now() -> int:
            seconds = now()
            note("now", value=seconds)
            return seconds

        noted = msgspec.structs.replace(options, sealer=_noted_sealer(options.sealer, note))
        super().__init__(request, history, noted, noted_id, noted_now)

    def send(self) -> None:
        self._note("send")
        super().send()

    def queue(self) -> None:
        self._note("queue")
        super().queue()

    def start(self) -> None:
        if self.state is TurnState.SENT:
            self._note("start")
        super().start()

    def heartbeat(self) -> None:
        self._note("heartbeat")
        super().heartbeat()

    def warm_up(self) -> None:
        self._note("warm_up")
        super().warm_up()

    def shorten(self) -> bool:
        self._note("shorten")
        return super().shorten()

    def receive_eof(self) -> None:
        self._note("eof")
        super().receive_eof()

    def fail(self, error: GatewayError) -> None:
        self._note("fail", error={**error.fields(), "status": error.status})
        super().fail(error)

    def cancel(self) -> None:
        self._note("cancel")
        super().cancel()

    def not_stored(self) -> None:
        self._note("not_stored")
        super().not_stored()


def _noted_sealer(sealer: Sealer, note: Note) -> Sealer:
    """Sealing takes chance, opening takes a key: neither is there when the turn is run again."""

    def seal(value: JSON) -> str:
        text = sealer.seal(value)
        note("seal", len(text), text=text)
        return text

    def unseal(text: str) -> Any:
        try:
            value = sealer.unseal(text)
        except ValueError:
            note("unseal", len(text), text=text, value=None)
            raise
        note("unseal", len(text), text=text, value=value)
        return value

    return Sealer(seal=seal, unseal=unseal)
