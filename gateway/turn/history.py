"""What a conversation has said so far, in public items: the thing that `previous_response_id` stands for."""

from collections.abc import Iterable

from msgspec import Struct

from gateway.errors import RequestError
from gateway.wire.json import JSON

_PENDING_TYPES = frozenset({"function_call", "custom_tool_call"})


class History(Struct, frozen=True):
    """An unchangeable history; a turn makes a longer one.

    Attributes:
        items: all input and output items of the chain in order, public form.
        pending: call_ids of the latest response that wait for their outputs.
    """

    items: tuple[JSON, ...] = ()
    pending: frozenset[str] = frozenset()

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[list[JSON], list[JSON]]]) -> "History":
        """Rebuilds a chain from its turns, the oldest first: (input items, output items) of each."""
        history = cls()
        for new_items, output in rows:
            history = history.extended(new_items, output)
        return history

    def extended(self, new_items: list[JSON], output: list[JSON]) -> "History":
        """The history after one more turn.

        Args:
            new_items: the input items of that turn alone.
            output: the items that the client has been given.
        """
        pending = frozenset(item["call_id"] for item in output if item["type"] in _PENDING_TYPES)
        if any(item["type"] == "compaction" for item in output):
            # The sealed summary stands for all that was before it.
            return History(items=tuple(output), pending=pending)
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


def _user_message(text: str) -> JSON:
    part: JSON = {"type": "input_text", "text": text}
    return {"type": "message", "role": "user", "content": [part]}


def call_ids(items: Iterable[JSON]) -> set[str]:
    """Every call_id in the items, unknown ones too; a new call must not repeat one (Q22)."""
    found = (item.get("call_id") for item in items)
    return {call_id for call_id in found if isinstance(call_id, str)}
