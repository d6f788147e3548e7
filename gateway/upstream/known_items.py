"""What a Responses upstream has said about its items so far, and which one an event speaks of.

Servers leave out indices, reuse them, change an item's id between its events, or send only its end
(Q37, Q38, Q39). Matched is by id first, then by call_id, then by place and type.
"""

from collections.abc import Iterator
from typing import Any

from gateway.wire.json import JSON, dumps_str

# Types that we know; any other is foreign and passes as it is.
OWN_TYPES = ("message", "reasoning", "function_call")

# The channel of an item's main text.
_TEXT_OF = {"message": "text", "reasoning": "reasoning", "function_call": "arguments"}

# What is being said about an item: its kind, and the part of it.
Channel = tuple[str, int]


class KnownItem:
    """One item of the upstream. `slot` is our number for it."""

    __slots__ = (
        *("call_id", "fields", "given", "id", "index"),
        *("is_begun", "is_done", "name", "slot", "type"),
    )

    def __init__(self, slot: int, type: str) -> None:
        self.slot = slot
        self.type = type
        self.id = ""
        self.call_id = ""
        self.name = ""
        self.index: int | None = None
        self.fields: JSON = {}  # of the upstream's item, that ours keeps
        self.is_begun = False  # its `added` came; else it was inferred from an event
        self.is_done = False
        self.given: dict[Channel, list[str]] = {}  # text that went on, by channel

    def text(self, kind: str) -> str:
        """Everything given on the channels of a kind."""
        found = [part for (name, _), parts in self.given.items() if name == kind for part in parts]
        return "".join(found)


class KnownItems:
    """The table of one answer's items."""

    def __init__(self) -> None:
        self._items: list[KnownItem] = []
        self._by_id: dict[str, KnownItem] = {}

    def begin(self, item: JSON, index: Any) -> KnownItem:
        """The item of an `added`: a new one, unless it repeats itself or its events came first."""
        known = self._by_id.get(read_id(item))
        if known is None or known.type != read_type(item):
            known = self._inferred(read_type(item), index) or self._new(read_type(item))
        self._learn(known, item, index)
        known.is_begun = True
        return known

    def of_event(self, event: JSON, type: str) -> KnownItem:
        """The item that a delta or a part's done belongs to; a new one when none fits."""
        item_id = event.get("item_id")
        if not isinstance(item_id, str):
            item_id = ""
        known = self._by_id.get(item_id)
        if known is not None and (known.type == type or known.type not in OWN_TYPES):
            return known
        index = event.get("output_index")
        known = self._at(type, index) or self._open_one(type, index, item_id) or self._new(type)
        self._learn(known, {"id": item_id}, index)
        return known

    def of_foreign_event(self, event: JSON) -> KnownItem | None:
        """The foreign item that an event of an unknown type belongs to."""
        item_id = event.get("item_id")
        known = self._by_id.get(item_id) if isinstance(item_id, str) else None
        if known is None and not item_id:
            index = event.get("output_index")
            known = next((item for item in self._undone() if item.index == index), None)
        return known if known is not None and known.type not in OWN_TYPES else None

    def of_whole(self, item: JSON, index: Any) -> KnownItem | None:
        """The item that a finished form ends, or None when it was never seen."""
        type = read_type(item)
        known = (
            self._by_identity(item)
            or self._at(type, index)
            or self._open_one(type, index, "", read_name(item))
        )
        if known is not None:
            self._learn(known, item, index)
        return known

    def of_list(self, output: list[JSON]) -> list[KnownItem | None]:
        """For each item of the final list the one that it repeats, or None for a gap (Q38).

        What has the same text is the same, whatever its id; then what is left of a type is paired in
        order, so that an item whose ids changed is not given twice.
        """
        found = [self._by_identity(item) for item in output]
        for number, item in enumerate(output):
            if found[number] is None:
                found[number] = self._by_text(item, found)
        for number, item in enumerate(output):
            if found[number] is None:
                free = (k for k in self._items if k.type == read_type(item) and k not in found)
                found[number] = next(free, None)
        return found

    # ------------------------------------------------------------------------------------- matching
    def _undone(self) -> Iterator[KnownItem]:
        return (item for item in reversed(self._items) if not item.is_done)

    def _inferred(self, type: str, index: Any) -> KnownItem | None:
        for item in self._undone():
            if item.type == type and not item.is_begun and item.index in (index, None):
                return item
        return None

    def _at(self, type: str, index: Any) -> KnownItem | None:
        """By place: an index alone means little, servers give one to several items (Ollama)."""
        if index is None:
            return None
        return next((i for i in self._undone() if i.type == type and i.index == index), None)

    def _open_one(self, type: str, index: Any, item_id: str, name: str = "") -> KnownItem | None:
        """By type: the one begun last, unless something says that it is another."""
        for item in self._undone():
            if item.type != type:
                continue
            if item.index is not None and index is not None and item.index != index:
                continue
            if item_id and item.id and not item.is_begun:
                continue
            if name and item.name and item.name != name:
                continue
            return item
        return None

    def _by_identity(self, item: JSON) -> KnownItem | None:
        type, call_id = read_type(item), read_call_id(item)
        known = self._by_id.get(read_id(item))
        if known is not None and known.type == type:
            return known
        same = (i for i in self._items if i.type == type and i.call_id == call_id)
        return next(same, None) if call_id else None

    def _by_text(self, item: JSON, taken: list[KnownItem | None]) -> KnownItem | None:
        type, text = read_type(item), _whole_text(item)
        for known in self._items:
            # Two calls with equal arguments are two calls; two equal messages are one.
            is_free = type != "function_call" or known not in taken
            if is_free and text and known.type == type and known.text(_TEXT_OF[type]) == text:
                return known
        return None

    def _new(self, type: str) -> KnownItem:
        known = KnownItem(len(self._items), type)
        self._items.append(known)
        return known

    def _learn(self, known: KnownItem, item: JSON, index: Any) -> None:
        item_id = read_id(item)
        if item_id:
            known.id = known.id or item_id
            self._by_id[item_id] = known
        known.call_id = known.call_id or read_call_id(item)
        known.name = known.name or read_name(item)
        if known.index is None and type(index) is int:
            known.index = index


# ------------------------------------------------------------------------------------ reading items
def read_type(item: JSON) -> str:
    """The item's type; some servers forget it where the rest says enough."""
    kind = item.get("type")
    if isinstance(kind, str) and kind:
        return kind
    return "function_call" if "arguments" in item else "message"


def read_id(item: JSON) -> str:
    return _string(item.get("id"))


def read_call_id(item: JSON) -> str:
    return _string(item.get("call_id"))


def read_name(item: JSON) -> str:
    return _string(item.get("name"))


def read_arguments(holder: JSON) -> str:
    """Argument text; an object is written out (Q24)."""
    arguments = holder.get("arguments")
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else dumps_str(arguments)


def _whole_text(item: JSON) -> str:
    """The text of a finished item, on the channel that `_TEXT_OF` names; "" for a foreign one."""
    if read_type(item) == "function_call":
        return read_arguments(item)
    content = item.get("content") if read_type(item) in _TEXT_OF else None
    parts = content if isinstance(content, list) else []
    return "".join(_string(part.get("text")) for part in parts if isinstance(part, dict))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
