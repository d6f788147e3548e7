"""tool_choice: the client's names one way, the upstream's names the other.

The public echo is the request's own; only the lowered request is made here.
"""

from typing import Any

from msgspec import Struct

from gateway.errors import RequestError
from gateway.tools import search
from gateway.tools.row import Row
from gateway.tools.table import ToolTable
from gateway.wire.json import JSON


class Chosen(Struct, frozen=True):
    """What goes upstream.

    Attributes:
        tool_choice: None when no tools go with it.
        rows: the tools to send, in order.
    """

    tool_choice: str | JSON | None
    rows: list[Row]


def lower_choice(choice: Any, table: ToolTable) -> Chosen:
    """Lowers a checked `tool_choice`.

    `allowed_tools` is a hard constraint: only the allowed tools are sent at all.

    Raises:
        RequestError: the choice names a tool that cannot be called, or demands a call where there is no tool.
    """
    rows = table.rows()
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = [_chosen_row(tool, table) for tool in choice["tools"]]
        public = {row.public for row in allowed}
        rows = [row for row in rows if row.public in public]
        choice = choice.get("mode", "auto")
    if isinstance(choice, dict):
        row = _chosen_row(choice, table)
        return Chosen(tool_choice={"type": "function", "name": row.upstream}, rows=rows)
    if not rows:
        if choice == "required":
            raise RequestError(
                "Tool choice 'required' needs a tool that this model server can be given.",
                param="tool_choice",
            )
        return Chosen(tool_choice=None, rows=[])
    return Chosen(tool_choice=choice or "auto", rows=rows)


def _chosen_row(choice: JSON, table: ToolTable) -> Row:
    kind = choice.get("type")
    name = search.NAME if kind == "tool_search" else choice.get("name")
    row = table.find(choice.get("namespace"), name) if isinstance(name, str) else None
    if row is None and isinstance(name, str) and kind in ("function", "custom"):
        row = table.lift(name)
    if row is None or row.is_withheld or row.kind != kind:
        raise RequestError(
            f"Tool choice '{name or kind}' not found in 'tools' parameter.", param="tool_choice"
        )
    return row
