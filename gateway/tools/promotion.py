"""Which deferred tools a conversation has really loaded: the promotion rule of tool_search.

A tool counts as loaded only through a *pair*: a completed `tool_search_call` and, after it, the first completed
`tool_search_output` with the same non-empty call_id, both with `execution: "client"`. An absent status counts as
completed. Everything else is left alone and is never an error: it stays on the wire and loads nothing.

| what | why it loads nothing |
| --- | --- |
| output without an earlier call, or before it | unmatched |
| call or output with another status | incomplete |
| call or output with `execution` other than client | not the client's search |
| empty or missing call_id | cannot be matched |
| a second output for one call_id | duplicate: the first one counts |
| two different calls with one call_id before its output | ambiguous: nobody can say which was answered |
"""

from msgspec import Struct

from gateway.wire.json import JSON


class Pair(Struct, frozen=True):
    """A search that was answered.

    Attributes:
        call_id: of both.
        position: index of the output in the items.
        tools: what the output loaded, as the client sent it.
    """

    call_id: str
    position: int
    tools: list[JSON]


def completed_pairs(items: list[JSON]) -> list[Pair]:
    """The pairs in order of their outputs."""
    calls: dict[str, JSON] = {}
    settled: set[str] = set()
    pairs: list[Pair] = []
    for position, item in enumerate(items):
        kind = item.get("type")
        if kind not in ("tool_search_call", "tool_search_output") or not _counts(item):
            continue
        call_id = item["call_id"]
        if call_id in settled:
            continue
        if kind == "tool_search_call":
            earlier = calls.setdefault(call_id, item)
            if earlier.get("arguments") != item.get("arguments"):
                settled.add(call_id)
        elif call_id in calls:
            settled.add(call_id)
            pairs.append(Pair(call_id=call_id, position=position, tools=item["tools"]))
    return pairs


def _counts(item: JSON) -> bool:
    call_id = item.get("call_id")
    return (
        item.get("execution") == "client"
        and item.get("status") in (None, "completed")
        and isinstance(call_id, str)
        and bool(call_id)
    )


def is_usable(tool: JSON) -> bool:
    """Whether a function or custom declaration inside an item can be used: nobody has checked it at the door."""
    name, description = tool.get("name"), tool.get("description")
    if not isinstance(name, str) or not name or not isinstance(description, str | None):
        return False
    if tool.get("type") == "custom":
        return _is_form(tool.get("format"))
    return tool.get("type") == "function" and isinstance(tool.get("parameters"), dict | None)


def _is_form(form: object) -> bool:
    if form is None:
        return True
    if not isinstance(form, dict):
        return False
    if form.get("type") != "grammar":
        return form.get("type") == "text"
    return form.get("syntax") in ("lark", "regex") and isinstance(form.get("definition"), str)
