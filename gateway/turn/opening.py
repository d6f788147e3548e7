"""Opens output items: which kind of item in flight an upstream item becomes, and under which call_id."""

from collections.abc import Callable
from typing import Final

from gateway.tools.row import CallIds, NewId
from gateway.turn import items as flight
from gateway.turn.thread import Thread
from gateway.wire.json import JSON

# The API's own bound on call ids; a longer one from upstream is replaced.
MAX_CALL_ID_CHARS: Final = 64


class Opener:
    """Opens the items of one response.

    Args:
        new_id: makes ids from a prefix.
    """

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._call_ids: set[str] = set()

    def open(self, item: JSON, index: int, thread: Thread) -> flight.OpenItem:
        """An item in flight.

        Args:
            item: what upstream has added.
            index: its public output_index.
            thread: the conversation that is answered: its tools, and the call_ids that are taken.
        """
        if item["type"] == "function_call":
            call_id = self._own_call_id(item, thread)
            ids = CallIds(new_id=self._new_id, call_id=call_id, output_index=index)
            return flight.Call(thread.table.open_call(item["name"], ids))
        return _PLAIN.get(item["type"], flight.Foreign)(index, self._new_id, item)

    def _own_call_id(self, item: JSON, thread: Thread) -> str:
        """The upstream's call_id where it is usable, else our own (Q21, Q22)."""
        call_id = item.get("call_id")
        is_usable = isinstance(call_id, str) and 0 < len(call_id) <= MAX_CALL_ID_CHARS
        if not is_usable or call_id in thread.call_ids or call_id in self._call_ids:
            call_id = self._new_id("call")
        own = str(call_id)
        self._call_ids.add(own)
        return own


def _message(index: int, new_id: NewId, item: JSON) -> flight.OpenItem:
    return flight.Message(index, new_id)


def _reasoning(index: int, new_id: NewId, item: JSON) -> flight.OpenItem:
    return flight.Reasoning(index, new_id)


_PLAIN: Final[dict[str, Callable[[int, NewId, JSON], flight.OpenItem]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "compaction": flight.Compaction,
}
