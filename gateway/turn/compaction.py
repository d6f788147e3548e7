"""Compaction: a long history becomes one sealed item, and that item becomes a short history again.

The client ends its input with a `compaction_trigger`; the model is asked for a summary; the answer holds exactly one
`compaction` item (codex-cli 0.171 accepts nothing else). What must outlive the history travels in the item beside the
summary: system text, tools that tool_search or `additional_tools` brought in, calls whose outputs are still to come.
`context_management` does the same in the middle of a response: the item comes first, then the answer to what is left.
Sealing is injected, since it needs randomness and a key.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from gateway.errors import InternalError, RequestError
from gateway.tools.row import NewId, Row
from gateway.tools.table import ToolTable
from gateway.wire.json import JSON

TRIGGER: Final = "compaction_trigger"
ITEM: Final = "compaction"
# Codex replays the item under its older name as well (codex-cli 0.171: alias).
_ITEM_NAMES: Final = frozenset({ITEM, "compaction_summary"})
# Raised when the meaning of a sealed value changes; an older gateway refuses a newer one with words.
BLOB_VERSION: Final = 1

_SYSTEM_ROLES: Final = ("system", "developer")
# In the place of an output that is still to come: the summary must not say that the call has failed.
PENDING: Final = "[This call is still running. Its output comes after your summary.]"

_ASK: Final = (
    "Summarise this conversation for a successor who will carry on with it and will see nothing but your summary. "
    "Say what was asked, what has been done and found out, which files and commands matter, what was decided and why, "
    "and what remains to be done next. Quote names, paths and values exactly. Answer with the summary alone and call "
    "no tool."
)
_PREFACE: Final = "Summary of the conversation so far, written before its beginning was removed:"


class Plan(Struct, frozen=True):
    """One compaction: what is summarised, and what travels with the summary.

    Attributes:
        head: the items that the summary stands for.
        tail: items that follow it verbatim: what is to be answered now.
        system: system text of the head, which is nobody's to shorten.
        tools: tools that only the history knows.
        pending: calls of the head whose outputs are still to come.
        starts_over: everything before the compaction item is in it; otherwise the client keeps what it will.
    """

    head: list[JSON]
    tail: list[JSON]
    system: list[JSON]
    tools: list[JSON]
    pending: list[JSON]
    starts_over: bool


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


def expand(items: list[JSON], sealer: Sealer, first_new: int = 0) -> list[JSON]:
    """Puts the sealed histories back: each `compaction` item becomes what it stands for.

    Args:
        items: of the history and of the request.
        sealer: opens them.
        first_new: index of the request's own first item, for the words of an error.

    Raises:
        RequestError: a blob of another gateway or key, or one that was altered.
    """
    if not any(item.get("type") in _ITEM_NAMES for item in items):
        return items
    expanded: list[JSON] = []
    for index, item in enumerate(items):
        if item.get("type") not in _ITEM_NAMES:
            expanded.append(item)
            continue
        value = _unsealed(item, sealer, index - first_new)
        if value["starts_over"]:
            expanded = []
        expanded += _restored(value, expanded)
    return expanded


def _unsealed(item: JSON, sealer: Sealer, index: int) -> JSON:
    place = "previous_response_id" if index < 0 else f"input[{index}].encrypted_content"
    try:
        value: JSON = sealer.unseal(item["encrypted_content"])
    except ValueError:
        raise RequestError(
            "The encrypted content of this compaction item was not made by this gateway, or was altered.",
            code="invalid_encrypted_content",
            param=place,
        ) from None
    if value.get("version") != BLOB_VERSION:
        raise RequestError(
            f"This compaction item has version {value.get('version')}; this gateway reads version {BLOB_VERSION}.",
            code="invalid_encrypted_content",
            param=place,
        )
    return value


def _restored(value: JSON, before: list[JSON]) -> list[JSON]:
    """What a sealed value stands for; system text that the client has sent again is not there twice."""
    present = [_text_of(item) for item in before if _is_system(item)]
    items = [item for item in value["system"] if _text_of(item) not in present]
    part: JSON = {"type": "input_text", "text": f"{_PREFACE}\n\n{value['summary']}"}
    items.append({"type": "message", "role": "user", "content": [part]})
    if value["tools"]:
        items.append({"type": "additional_tools", "role": "developer", "tools": value["tools"]})
    return [*items, *value["pending"], *value["tail"]]


def _is_system(item: JSON) -> bool:
    return item.get("type", "message") == "message" and item.get("role") in _SYSTEM_ROLES


def _text_of(item: JSON) -> tuple[str, str]:
    content = item["content"]
    if isinstance(content, str):
        return item["role"], content
    return item["role"], "".join(str(part.get("text")) for part in content)


def plan(
    items: list[JSON], table: ToolTable, unanswered: list[JSON], *, tail: list[JSON] | None = None
) -> Plan:
    """The compaction of a whole history, or of all but its `tail`, which the response goes on with.

    Args:
        items: the history to be summarised, expanded.
        table: of the whole history.
        unanswered: the calls in `items` that have no output.
        tail: see `Plan`; None when the client goes on by itself.
    """
    return Plan(
        head=items,
        tail=tail or [],
        system=[item for item in items if _is_system(item)],
        tools=kept_tools(table),
        pending=unanswered,
        starts_over=tail is not None,
    )


def question() -> JSON:
    """The message that asks for the summary."""
    part: JSON = {"type": "input_text", "text": _ASK}
    return {"type": "message", "role": "user", "content": [part]}


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


class Summarizer:
    """Rewrites the canonical stream of a summary: its text is kept back, one compaction item comes out.

    Args:
        sealer: see `Sealer`.
        plan: what travels with the summary.
        new_id: makes ids.
    """

    def __init__(self, sealer: Sealer, plan: Plan, new_id: NewId) -> None:
        self._sealer = sealer
        self._plan = plan
        self._id = new_id("cmp")
        self._text: list[str] = []

    @property
    def goes_on(self) -> bool:
        """Whether the answer follows in the same response, so that the end of the summary is not its end."""
        return self._plan.starts_over

    def begin(self) -> list[JSON]:
        """The events that say that a summary is being made."""
        return [
            {"type": "response.output_item.added", "output_index": 0, "item": self._item("")},
            {"type": "response.compaction.compacting", "output_index": 0, "item_id": self._id},
        ]

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
        plan = self._plan
        blob = self._sealer.seal(
            {
                "version": BLOB_VERSION,
                "summary": summary,
                "system": plan.system,
                "tools": plan.tools,
                "pending": plan.pending,
                "tail": plan.tail,
                "starts_over": plan.starts_over,
            }
        )
        item = self._item(blob)
        done = {"type": "response.output_item.done", "output_index": 0, "item": item}
        return [done, event]

    def _item(self, blob: str) -> JSON:
        return {"id": self._id, "type": ITEM, "encrypted_content": blob}

    @staticmethod
    def _failed(message: str, event: JSON) -> JSON:
        """Fails closed: a history is never traded for half a summary."""
        error = {"code": "server_error", "message": f"Compaction failed. {message}"}
        response = {"error": error, "usage": event["response"].get("usage")}
        return {"type": "response.failed", "response": response}
