"""Function tools: they keep their clothes, only their name may change."""

from gateway.tools.row import CallIds, Row
from gateway.wire import events
from gateway.wire.json import JSON

ID_PREFIX = "fc"
EMPTY_PARAMETERS: JSON = {"type": "object", "properties": {}}


def lower_tool(row: Row) -> JSON:
    """The function declaration for upstream; `defer_loading` and every other key stays here."""
    tool = row.declaration
    lowered: JSON = {"type": "function", "name": row.upstream}
    if tool.get("description"):
        lowered["description"] = tool["description"]
    lowered["parameters"] = tool.get("parameters") or EMPTY_PARAMETERS
    if isinstance(tool.get("strict"), bool):
        lowered["strict"] = tool["strict"]
    return lowered


def lower_call(item: JSON, upstream_name: str) -> JSON:
    """A `function_call` of the history."""
    return {
        "type": "function_call",
        "call_id": item["call_id"],
        "name": upstream_name,
        "arguments": item["arguments"],
    }


def lower_output(item: JSON) -> JSON:
    """A `function_call_output` or `custom_tool_call_output` of the history: a string or parts."""
    return {
        "type": "function_call_output",
        "call_id": item["call_id"],
        "output": item["output"],
    }


class FunctionStream:
    """A function call: its argument fragments leave as they come.

    Args:
        restored: `name` and, below a namespace, `namespace`, as the client knows them.
        ids: where the call stands in the response.
    """

    verdict = None

    def __init__(self, restored: JSON, ids: CallIds) -> None:
        self._restored = restored
        self._call_id = ids.call_id
        self._index = ids.output_index
        self._id = ids.new_id(ID_PREFIX)

    def _item(self, arguments: str, status: str) -> JSON:
        return {
            "id": self._id,
            "type": "function_call",
            "status": status,
            "arguments": arguments,
            "call_id": self._call_id,
            **self._restored,
        }

    def open(self) -> list[JSON]:
        return [events.item_added(self._index, self._item("", "in_progress"))]

    def delta(self, fragment: str) -> list[JSON]:
        return [
            {
                "type": "response.function_call_arguments.delta",
                "item_id": self._id,
                "output_index": self._index,
                "delta": fragment,
            }
        ]

    def close(self, arguments: str) -> tuple[list[JSON], JSON]:
        item = self._item(arguments, "completed")
        done = events.done("function_call_arguments", self._id, self._index, "arguments", arguments)
        return [done, events.item_done(self._index, item)], item

    def cut(self, arguments: str) -> tuple[list[JSON], JSON]:
        return [], self._item(arguments, "incomplete")


def open_stream(row: Row, ids: CallIds) -> FunctionStream:
    """The stream of a call to this tool."""
    return FunctionStream(row.restored(), ids)


def open_unknown(restored: JSON, ids: CallIds) -> FunctionStream:
    """The stream of a call to a tool that nothing declared: an ordinary function call, never lifted by its name."""
    return FunctionStream(restored, ids)
