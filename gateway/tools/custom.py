"""Custom tools, whose input is free text: a function with one string `input` upstream, raw text for the client.

OpenAI holds the text to the tool's grammar; a function-only server cannot, so the model is shown the grammar in the
description.
"""

from gateway.tools.arguments import INPUT_FIELD, InputReader
from gateway.tools.row import CallIds, Row
from gateway.wire import events
from gateway.wire.json import JSON, dumps_str

ID_PREFIX = "ctc"

_FIELD_HINT = f"Put the text, as it is, into the string `{INPUT_FIELD}`."
_GRAMMAR_HINT = {
    "lark": "The text must match this Lark grammar, character by character:",
    "regex": "The whole text must match this regular expression:",
}


def lower_tool(row: Row) -> JSON:
    """The function declaration: one required string, the description and the form of the text."""
    return {
        "type": "function",
        "name": row.upstream,
        "description": _description(row.declaration),
        "parameters": {
            "type": "object",
            "properties": {INPUT_FIELD: {"type": "string", "description": "The text itself."}},
            "required": [INPUT_FIELD],
            "additionalProperties": False,
        },
        "strict": False,
    }


def _description(tool: JSON) -> str:
    paragraphs = [tool.get("description") or "", _FIELD_HINT]
    form = tool.get("format") or {}
    if form.get("type") == "grammar":
        paragraphs += [_GRAMMAR_HINT[form["syntax"]], form["definition"]]
    return "\n\n".join(text for text in paragraphs if text)


def lower_call(item: JSON, upstream_name: str) -> JSON:
    """A `custom_tool_call` of the history, in the form that the model is asked for."""
    return {
        "type": "function_call",
        "call_id": item["call_id"],
        "name": upstream_name,
        "arguments": dumps_str({INPUT_FIELD: item["input"]}),
    }


class CustomStream:
    """A custom call: the text inside the JSON leaves un-escaped as it comes."""

    def __init__(self, row: Row, ids: CallIds) -> None:
        self._restored = row.restored()
        self._call_id = ids.call_id
        self._index = ids.output_index
        self._id = ids.new_id(ID_PREFIX)
        self._reader = InputReader()
        self._text: list[str] = []

    def _item(self, text: str, status: str) -> JSON:
        return {
            "id": self._id,
            "type": "custom_tool_call",
            "status": status,
            "call_id": self._call_id,
            "input": text,
            **self._restored,
        }

    def open(self) -> list[JSON]:
        return [events.item_added(self._index, self._item("", "in_progress"))]

    def delta(self, fragment: str) -> list[JSON]:
        return self._emit(self._reader.feed(fragment))

    def _emit(self, text: str) -> list[JSON]:
        if not text:
            return []
        self._text.append(text)
        return [
            {
                "type": "response.custom_tool_call_input.delta",
                "item_id": self._id,
                "output_index": self._index,
                "delta": text,
            }
        ]

    def close(self, arguments: str) -> tuple[list[JSON], JSON]:
        public = self._emit(self._reader.finish())
        text = "".join(self._text)
        item = self._item(text, "completed")
        public.append(events.done("custom_tool_call_input", self._id, self._index, "input", text))
        public.append(events.item_done(self._index, item))
        return public, item

    def cut(self, arguments: str) -> tuple[list[JSON], JSON]:
        return [], self._item("".join(self._text), "incomplete")


def open_stream(row: Row, ids: CallIds) -> CustomStream:
    """The stream of a call to this tool."""
    return CustomStream(row, ids)
