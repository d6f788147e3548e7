"""What a conversation has said so far, in public items: the thing that `previous_response_id` stands for."""

from collections.abc import Iterable

from msgspec import Struct

from gateway.errors import RequestError
from gateway.turn.thread import Grown
from gateway.wire.json import JSON

_PENDING_TYPES = frozenset({"function_call", "custom_tool_call"})


class History(Struct, frozen=True):
    """An unchangeable history; a turn makes a longer one.

    Attributes:
        items: all input and output items of the chain in order, public form.
        pending: call_ids of the latest response that wait for their outputs.
        grown: the lowered form of a part of the items, for the turn that comes first.
    """

    items: tuple[JSON, ...] = ()
    pending: frozenset[str] = frozenset()
    grown: Grown | None = None

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[list[JSON], list[JSON]]]) -> "History":
        """Rebuilds a chain from its turns, the oldest first: (input items, output items) of each."""
        items: list[JSON] = []
        output: list[JSON] = []
        for new_items, output in rows:
            kept = _since_compaction(output)
            if kept is not output:
                items = []
            else:
                items += new_items
            items += kept
        return cls(items=tuple(items), pending=_pending(output))

    def extended(self, new_items: list[JSON], output: list[JSON]) -> "History":
        """The history after one more turn.

        Args:
            new_items: the input items of that turn alone.
            output: the items that the client has been given.
        """
        pending = _pending(output)
        kept = _since_compaction(output)
        if kept is not output:
            return History(items=tuple(kept), pending=pending)
        return History(items=(*self.items, *new_items, *output), pending=pending)

    def new_items(self, request: JSON) -> list[JSON]:
        """The request's own input as items.

        A string is a user message, an item without a type a message, and an `item_reference` the item that it names.

        Raises:
            RequestError: a reference to an item that is not in this history.
        """
        given = request.get("input") or []
        if isinstance(given, str):
            return [_user_message(given)]
        return [self._item(item, f"input[{index}]") for index, item in enumerate(given)]

    def _item(self, item: JSON, path: str) -> JSON:
        kind = item.get("type")
        if kind is None:
            return {"type": "message", **item}
        if kind != "item_reference":
            return item
        wanted = item["id"]
        for known in self.items:
            if known.get("id") == wanted:
                return known
        raise RequestError(f"Item with id '{wanted}' not found.", param=f"{path}.id", status=404)


def _pending(output: list[JSON]) -> frozenset[str]:
    return frozenset(item["call_id"] for item in output if item["type"] in _PENDING_TYPES)


def _since_compaction(output: list[JSON]) -> list[JSON]:
    """The output from its compaction item on, which stands for all that was before it; the very list without one."""
    for index in range(len(output) - 1, -1, -1):
        if output[index]["type"] == "compaction":
            return output[index:]
    return output


def _user_message(text: str) -> JSON:
    part: JSON = {"type": "input_text", "text": text}
    return {"type": "message", "role": "user", "content": [part]}
