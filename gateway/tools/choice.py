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
        tool_choice: a word, or the function by its upstream name.
        rows: the tools to send, in order.
        hosted: the hosted tools to send behind them.
    """

    tool_choice: str | JSON
    rows: list[Row]
    hosted: list[JSON]


def lower_choice(choice: Any, table: ToolTable) -> Chosen:
    """Lowers a checked `tool_choice`.

    `allowed_tools` is a hard constraint: only the allowed tools are sent at all.

    Raises:
        RequestError: the choice names a tool that cannot be called, or demands a call where there is no tool.
    """
    rows, passed = table.rows(), table.hosted
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = choice["tools"]
        names = {_chosen_row(tool, table).upstream for tool in allowed if _is_ours(tool)}
        rows = [row for row in rows if row.upstream in names]
        passed = [tool for tool in passed if any(_is_meant(tool, one) for one in allowed)]
        choice = choice.get("mode", "auto")
    lowered: str | JSON = choice or "auto"
    if isinstance(choice, dict):
        if _is_ours(choice):
            lowered = {"type": "function", "name": _chosen_row(choice, table).upstream}
        elif not any(_is_meant(tool, choice) for tool in passed):
            raise _not_found(choice)
    if lowered == "required" and not rows and not passed:
        raise RequestError(
            "Tool choice 'required' needs a tool that this model server can be given.",
            param="tool_choice",
        )
    return Chosen(tool_choice=lowered, rows=rows, hosted=passed)


def _is_ours(choice: JSON) -> bool:
    """Whether the choice names a tool that the client runs; another one is hosted."""
    return choice.get("type") in ("function", "custom", search.NAME)


def _is_meant(tool: JSON, choice: JSON) -> bool:
    """Whether a choice such as `{"type": "mcp", "server_label": …}` means this hosted tool."""
    return all(tool.get(key) == value for key, value in choice.items())


def _chosen_row(choice: JSON, table: ToolTable) -> Row:
    row = _named_row(choice, table)
    if row is None or row.is_withheld or row.kind != choice["type"]:
        raise _not_found(choice)
    return row


def _named_row(choice: JSON, table: ToolTable) -> Row | None:
    name, namespace = choice.get("name"), choice.get("namespace")
    if choice["type"] == search.NAME:
        return table.search_row
    if not isinstance(name, str) or not isinstance(namespace, str | None):
        return None
    row = table.find(namespace, name)
    return table.lift(name) if row is None else row


def _not_found(choice: JSON) -> RequestError:
    name = choice.get("name") or choice.get("type")
    return RequestError(
        f"Tool choice '{name}' not found in 'tools' parameter.", param="tool_choice"
    )
