"""Client-executed tool_search: a function upstream, a `tool_search_call` with an object for the client.

A bare declaration, or one with `execution: "server"`, is a hosted tool (tools/hosted.py).
"""

from typing import Any

from gateway.tools import function
from gateway.tools.row import CallIds, Row
from gateway.wire import events
from gateway.wire.json import JSON, MalformedJSON, dumps_str, loads

ID_PREFIX = "tsc"
NAME = "tool_search"

_DEFAULT_PARAMETERS: JSON = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do."}},
    "required": ["query"],
    "additionalProperties": False,
}
_DEFAULT_DESCRIPTION = (
    "Finds tools by what they do. A tool that it returns can be called afterwards."
)
_DEFERRED_HEADING = "Tools that can be found:"
# A model reads the heads of the deferred tools, not their manuals: one line each.
MAX_DEFERRED_LINE_CHARS = 200


def is_client_search(tool: JSON) -> bool:
    """Whether this declaration is ours to lower."""
    return tool.get("type") == "tool_search" and tool.get("execution") == "client"


def is_usable(tool: JSON) -> bool:
    """Whether a declaration inside an item can be used: nobody has checked it at the door."""
    is_described = isinstance(tool.get("description"), str | None)
    return is_described and isinstance(tool.get("parameters"), dict | None)


def lower_tool(row: Row, deferred: list[Row]) -> JSON:
    """The fallback function; names and descriptions of the withheld tools stand in its description."""
    tool = row.declaration
    lines = [_line(withheld) for withheld in deferred]
    heading = [_DEFERRED_HEADING, *lines] if lines else []
    description = tool.get("description") or _DEFAULT_DESCRIPTION
    return {
        "type": "function",
        "name": row.upstream,
        "description": "\n".join([description, *heading]),
        "parameters": tool.get("parameters") or _DEFAULT_PARAMETERS,
        "strict": False,
    }


def _line(row: Row) -> str:
    first = str(row.declaration.get("description") or "").strip().partition("\n")[0]
    line = f"- {row.upstream}: {first}" if first else f"- {row.upstream}"
    return line[:MAX_DEFERRED_LINE_CHARS]


def lower_call(item: JSON, upstream_name: str) -> JSON:
    """A `tool_search_call` of the history; its arguments are an object on the public side."""
    arguments = item.get("arguments")
    text = arguments if isinstance(arguments, str) else dumps_str(arguments or {})
    return {
        "type": "function_call",
        "call_id": item["call_id"],
        "name": upstream_name,
        "arguments": text,
    }


def lower_output(item: JSON, loaded: list[Row]) -> JSON:
    """A `tool_search_output` of the history: which functions the model may call now, by their upstream names."""
    found = [
        {"name": row.upstream, "description": row.declaration.get("description") or ""}
        for row in loaded
    ]
    return {
        "type": "function_call_output",
        "call_id": item["call_id"],
        "output": dumps_str({"tools": found}),
    }


def parse_arguments(arguments: str) -> dict[str, Any] | None:
    """The arguments as an object; None for what makes the call malformed."""
    if not arguments.strip():
        return {}
    try:
        value = loads(arguments)
    except MalformedJSON:
        return None
    return value if isinstance(value, dict) else None


class SearchStream:
    """A search call: held until it is whole, since only then it is known to be well-formed.

    Well-formed (a call_id, arguments an object or empty): `tool_search_call`, added with `{}` and then done, with no
    events for the arguments. Malformed: the ordinary `function_call` that the model made.
    """

    verdict = None

    def __init__(self, row: Row, ids: CallIds) -> None:
        self._row = row
        self._ids = ids

    def open(self) -> list[JSON]:
        return []

    def delta(self, fragment: str) -> list[JSON]:
        return []

    def close(self, arguments: str) -> tuple[list[JSON], JSON]:
        value = parse_arguments(arguments)
        if value is None:
            return self._close_malformed(arguments)
        item = self._item(value, "completed")
        index = self._ids.output_index
        added = {**item, "arguments": {}, "status": "in_progress"}
        return [events.item_added(index, added), events.item_done(index, item)], item

    def _close_malformed(self, arguments: str) -> tuple[list[JSON], JSON]:
        plain = function.open_stream(self._row, self._ids)
        end, item = plain.close(arguments)
        return [*plain.open(), *plain.delta(arguments), *end], item

    def cut(self, arguments: str) -> tuple[list[JSON], JSON]:
        item = self._item({}, "incomplete")
        added = {**item, "status": "in_progress"}
        return [events.item_added(self._ids.output_index, added)], item

    def _item(self, arguments: JSON, status: str) -> JSON:
        return {
            "id": self._ids.new_id(ID_PREFIX),
            "type": "tool_search_call",
            "status": status,
            "execution": "client",
            "call_id": self._ids.call_id,
            "arguments": arguments,
        }


def open_stream(row: Row, ids: CallIds) -> SearchStream:
    """The stream of a call to the fallback function."""
    return SearchStream(row, ids)
