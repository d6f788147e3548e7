"""Which call a loose `tool_calls` entry belongs to, when indices and ids are missing or reused.

Rules (Q18 to Q23): an index decides, unless the same index comes with another id or begins again
after complete arguments; without an index the id decides; without both it is the call begun last,
or a new one when a name appears that cannot be its. Ids of two calls may be equal, or come late.
"""

from typing import Any, NamedTuple

from gateway.upstream.assembly import Assembly
from gateway.wire.json import JSON, dumps_str


class Entry(NamedTuple):
    """One entry of `tool_calls`, with what servers leave out made empty (Q20, Q24)."""

    place: int | None  # `index`
    call_id: str
    name: str
    arguments: str


def read_entry(raw: JSON) -> Entry:
    """An entry in any of the known shapes; TGI sends arguments as an object (Q24)."""
    function = raw.get("function")
    if not isinstance(function, dict):
        function = raw  # a flat entry, or the legacy `function_call`
    index, call_id, name = raw.get("index"), raw.get("id"), function.get("name")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    return Entry(
        index if type(index) is int else None,
        call_id if isinstance(call_id, str) else "",
        name if isinstance(name, str) else "",
        arguments if isinstance(arguments, str) else dumps_str(arguments),
    )


class CallSlots:
    """Gives every call of one answer its slot in the assembly."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._ids: list[str] = []  # of each slot, "" until it came

    def add(self, raw: Any) -> None:
        """Hand one entry to the assembly."""
        if type(raw) is not dict:
            self._assembly.note(f"a tool call of type {type(raw).__name__} was skipped")
        elif not self._add_fragment(raw):
            self._add_entry(raw)

    def _add_fragment(self, raw: JSON) -> bool:
        """The usual entry, more arguments for a known index, takes no detour."""
        index, function = raw.get("index"), raw.get("function")
        if type(index) is not int or type(function) is not dict:
            return False
        slot, fragment = self._by_index.get(index), function.get("arguments")
        if slot is None or type(fragment) is not str or raw.get("id") or function.get("name"):
            return False
        if fragment:
            self._assembly.arguments(slot, fragment)
        return True

    def _add_entry(self, raw: JSON) -> None:
        entry = read_entry(raw)
        slot = self._find(entry)
        if slot is None:
            slot = len(self._ids)
            self._ids.append(entry.call_id)
            self._assembly.call(slot, entry.call_id, entry.name)
        elif entry.call_id or entry.name:
            self._ids[slot] = self._ids[slot] or entry.call_id
            self._assembly.call(slot, entry.call_id, entry.name)
        if entry.place is not None:
            self._by_index[entry.place] = slot
        if entry.call_id:
            self._by_id[entry.call_id] = slot
        if entry.arguments:
            self._assembly.arguments(slot, entry.arguments)

    def _find(self, entry: Entry) -> int | None:
        """The slot of a call that is known already."""
        slot = self._candidate(entry)
        if slot is None or not entry.name:
            return slot
        return None if self._is_another(slot, entry) else slot

    def _candidate(self, entry: Entry) -> int | None:
        if entry.place is not None:
            slot = self._by_index.get(entry.place)
            if slot is None and not entry.call_id and not entry.name:
                return self._last_without_index()
            if slot is not None and self._contradicts(slot, entry.call_id):  # Q19
                return self._by_id.get(entry.call_id)
            return slot
        if entry.call_id:
            slot = self._by_id.get(entry.call_id)
            if slot is not None:
                return slot
        last = len(self._ids) - 1
        if last < 0 or self._contradicts(last, entry.call_id):
            return None
        return last

    def _last_without_index(self) -> int | None:
        """The call that began without an index, which its continuation gives."""
        last = len(self._ids) - 1
        return None if last < 0 or last in self._by_index.values() else last

    def _contradicts(self, slot: int, call_id: str) -> bool:
        return bool(call_id and self._ids[slot] and self._ids[slot] != call_id)

    def _is_another(self, slot: int, entry: Entry) -> bool:
        """Whether a name, at a call that has one, begins a new call instead of repeating it."""
        call = self._assembly.peek(slot)
        if call is None or not call.name or not call.length:
            return False  # Q23: fragments of a name come before any arguments
        is_same_name = call.name == entry.name
        if entry.call_id and entry.call_id == self._ids[slot] and is_same_name:
            return False
        if call.verdict() == "complete":
            return not is_same_name or (bool(entry.arguments) and entry.arguments != call.text)
        # Names that differ inside unfinished arguments: only an index says that it is one call.
        return not is_same_name and entry.place is None
