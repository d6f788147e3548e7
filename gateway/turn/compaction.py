"""Compaction: a long history becomes one sealed item, and that item becomes a short history again.

The client ends its input with a `compaction_trigger`; the model is asked for a summary; the answer holds exactly one
`compaction` item (codex-cli 0.171 accepts nothing else). What must outlive the history travels in the item beside the
summary: tools that tool_search or `additional_tools` brought in, and calls whose outputs are still to come. Sealing is
injected, since it needs randomness and a key.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from gateway.errors import InternalError, RequestError
from gateway.tools.row import NewId, Row
from gateway.tools.table import ToolTable
from gateway.turn.pairing import Answer, pair
from gateway.wire.json import JSON

TRIGGER: Final = "compaction_trigger"
ITEM: Final = "compaction"
# Codex replays the item under its older name as well (codex-cli 0.171: alias).
_ITEM_NAMES: Final = frozenset({ITEM, "compaction_summary"})
# Raised when the meaning of a sealed value changes; an older gateway refuses a newer one with words.
BLOB_VERSION: Final = 1

_ASK: Final = (
    "Summarise this conversation for a successor who will carry on with it and will see nothing but your summary. "
    "Say what was asked, what has been done and found out, which files and commands matter, what was decided and why, "
    "and what remains to be done next. Quote names, paths and values exactly. Answer with the summary alone and call "
    "no tool."
)
_PREFACE: Final = "Summary of the conversation so far, written before its beginning was removed:"


class Sealer(Struct, frozen=True):
    """Authenticated encryption of a JSON value, both ways.

    Attributes:
        seal: value -> text.
        unseal: text -> value; raises ValueError for a text that was not sealed here.
    """

    seal: Callable[[JSON], str]
    unseal: Callable[[str], Any]


def _no_seal(value: JSON) -> str:
    raise InternalError("compaction: no key to seal with")


def _no_unseal(text: str) -> Any:
    raise ValueError("no key")


NO_SEALER: Final = Sealer(seal=_no_seal, unseal=_no_unseal)


def is_compaction(new_items: list[JSON]) -> bool:
    """Whether this request asks for compaction.

    Raises:
        RequestError: a trigger that is not the final input item.
    """
    for index, item in enumerate(new_items[:-1]):
        if item.get("type") == TRIGGER:
            raise RequestError(
                f"'{TRIGGER}' must be the final input item.", param=f"input[{index}]"
            )
    return bool(new_items) and new_items[-1].get("type") == TRIGGER


def expand(items: list[JSON], sealer: Sealer) -> list[JSON]:
    """Puts the sealed histories back: summary, tools and pending calls in the place of each `compaction` item.

    Raises:
        RequestError: a blob of another gateway or key, or one that was altered.
    """
    if not any(item.get("type") in _ITEM_NAMES for item in items):
        return items
    expanded: list[JSON] = []
    for item in items:
        expanded += _unsealed(item, sealer) if item.get("type") in _ITEM_NAMES else [item]
    return expanded


def _unsealed(item: JSON, sealer: Sealer) -> list[JSON]:
    try:
        value = sealer.unseal(item["encrypted_content"])
    except ValueError:
        raise RequestError(
            "The encrypted content of this compaction item was not made by this gateway, or was altered.",
            code="invalid_encrypted_content",
            param="input",
        ) from None
    if value.get("version") != BLOB_VERSION:
        raise RequestError(
            f"This compaction item has version {value.get('version')}; this gateway reads version {BLOB_VERSION}.",
            code="invalid_encrypted_content",
            param="input",
        )
    part: JSON = {"type": "input_text", "text": f"{_PREFACE}\n\n{value['summary']}"}
    items: list[JSON] = [{"type": "message", "role": "user", "content": [part]}]
    if value["tools"]:
        items.append({"type": "additional_tools", "role": "developer", "tools": value["tools"]})
    return [*items, *value["pending"]]


def ask(input_items: list[JSON]) -> list[JSON]:
    """The lowered history with the request for a summary behind it."""
    part: JSON = {"type": "input_text", "text": _ASK}
    return [*input_items, {"type": "message", "role": "user", "content": [part]}]


def kept_tools(table: ToolTable) -> list[JSON]:
    """Tools that only the history knows, as declarations of an `additional_tools` item.

    A bare function that was loaded is filed under a namespace of its own name, as the API does (responses-api.md 0.8).
    """
    kept: dict[str | None, list[JSON]] = {}
    for row in table.rows_of_history():
        kept.setdefault(row.namespace, []).append(_declaration(row))
    bare = kept.pop(None, [])
    namespaces: list[JSON] = [
        {"type": "namespace", "name": name, "description": "", "tools": members}
        for name, members in kept.items()
    ]
    return [*bare, *namespaces]


def _declaration(row: Row) -> JSON:
    if row.is_withheld:
        return row.declaration
    return {key: value for key, value in row.declaration.items() if key != "defer_loading"}


def pending_calls(items: list[JSON]) -> list[JSON]:
    """Calls without an output: their outputs come after the compaction and need them."""
    steps = pair(items).steps
    return [step.call.item for step in steps if isinstance(step, Answer) and not step.call.outputs]


class Summarizer:
    """Rewrites the canonical stream of a summary: its text is kept back, one compaction item comes out.

    Args:
        sealer: see `Sealer`.
        tools: what `kept_tools` gave.
        pending: what `pending_calls` gave.
        new_id: makes ids.
    """

    def __init__(
        self, sealer: Sealer, tools: list[JSON], pending: list[JSON], new_id: NewId
    ) -> None:
        self._sealer = sealer
        self._tools = tools
        self._pending = pending
        self._new_id = new_id
        self._text: list[str] = []

    def feed(self, event: JSON) -> list[JSON]:
        """The events that take the place of this one."""
        kind = event["type"]
        if kind == "response.output_text.delta":
            self._text.append(event["delta"])
            return []
        if kind == "response.failed":
            return [event]
        if kind == "response.incomplete":
            return [self._failed("The model's summary was cut off.", event)]
        return self._completed(event) if kind == "response.completed" else []

    def _completed(self, event: JSON) -> list[JSON]:
        summary = "".join(self._text).strip()
        if not summary:
            return [self._failed("The model gave no summary.", event)]
        blob = self._sealer.seal(
            {
                "version": BLOB_VERSION,
                "summary": summary,
                "tools": self._tools,
                "pending": self._pending,
            }
        )
        item: JSON = {"id": self._new_id("cmp"), "type": ITEM, "encrypted_content": blob}
        at = {"output_index": 0, "item": item}
        return [
            {"type": "response.output_item.added", **at},
            {"type": "response.output_item.done", **at},
            event,
        ]

    @staticmethod
    def _failed(message: str, event: JSON) -> JSON:
        """Fails closed: a history is never traded for half a summary."""
        error = {"code": "server_error", "message": f"Compaction failed. {message}"}
        response = {"error": error, "usage": event["response"].get("usage")}
        return {"type": "response.failed", "response": response}
