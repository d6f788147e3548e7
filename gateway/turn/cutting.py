"""Where a history may be cut: a call and its output are on one side, whole, or both are gone.

The tail of a compaction is what the model is to answer now; everything before it is summarised.
"""

from typing import Final

from gateway.turn.pairing import OUTPUT_OF
from gateway.wire.json import JSON, dumps

_CALL_OF: Final = {output: call for call, output in OUTPUT_OF.items()}
# The tail may take this share of what the whole may hold, so that the summary has room as well.
TAIL_SHARE: Final = 0.5
# How much of a history that is too long even for its summary is left out, once, from its oldest end.
DROPPED_SHARE: Final = 0.5
# Of JSON text, on average: an estimate that is near enough for a threshold, with any tokenizer.
BYTES_PER_TOKEN: Final = 4


def tokens(value: object) -> int:
    """About how many tokens a JSON value is."""
    return len(dumps(value)) // BYTES_PER_TOKEN


def split(items: list[JSON], threshold: int) -> tuple[list[JSON], list[JSON]] | None:
    """(head, tail) of a history that has more than `threshold` tokens; None when there is no head to summarise.

    The tail is the new input with the calls that it answers. When that is too much, only its user messages stay.
    """
    start = _start_of_tail(items)
    head, tail = items[:start], items[start:]
    if tokens(tail) > threshold * TAIL_SHARE:
        head = [*head, *(item for item in tail if not _is_user(item))]
        tail = [item for item in tail if _is_user(item)]
    if all(item.get("role") in ("system", "developer") for item in head):
        return None
    return head, tail


def _start_of_tail(items: list[JSON]) -> int:
    """Behind the model's last words, and before every call whose output is in the tail."""
    start = len(items)
    missing: set[tuple[str, str]] = set()
    is_new = True
    while start:
        item = items[start - 1]
        is_new = is_new and not _is_of_model(item)
        if not is_new and not missing:
            break
        start -= 1
        kind, call_id = str(item.get("type")), str(item.get("call_id"))
        if kind in _CALL_OF:
            missing.add((_CALL_OF[kind], call_id))
        missing.discard((kind, call_id))
    while start and start < len(items) and items[start - 1].get("type") == "reasoning":
        start -= 1  # it belongs to the call behind it
    return start


def drop_oldest(items: list[JSON]) -> list[JSON] | None:
    """The history without its oldest part; None when nothing would be left.

    System text stays. What goes takes the other half of its pair with it.
    """
    sizes = [len(dumps(item)) for item in items]
    to_drop = sum(sizes) * DROPPED_SHARE
    dropped_calls: set[tuple[str, str]] = set()
    kept: list[JSON] = []
    for item, size in zip(items, sizes, strict=True):
        kind, call_id = str(item.get("type")), str(item.get("call_id"))
        if (_CALL_OF.get(kind), call_id) in dropped_calls:
            to_drop -= size
        elif to_drop > 0 and item.get("role") not in ("system", "developer"):
            to_drop -= size
            if kind in OUTPUT_OF:
                dropped_calls.add((kind, call_id))
        else:
            dropped_calls.discard((kind, call_id))
            kept.append(item)
    is_empty = all(item.get("role") in ("system", "developer") for item in kept)
    return None if is_empty else kept


def _is_user(item: JSON) -> bool:
    return item.get("type", "message") == "message" and item.get("role") == "user"


def _is_of_model(item: JSON) -> bool:
    kind = item.get("type")
    return item.get("role") == "assistant" or kind == "reasoning" or kind in OUTPUT_OF
