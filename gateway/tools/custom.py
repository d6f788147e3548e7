"""Custom tools, whose input is free text: a function with one string `input` upstream, raw text for the client.

OpenAI holds the text to the tool's grammar. Here the model is shown the grammar in the description, a server that can
is given it as a `pattern`, and every call is checked as it streams (tools/gate.py).
"""

import functools
from typing import Any

from gateway.errors import RequestError
from gateway.grammar.load import MAX_LOADED, Grammar, load_grammar
from gateway.grammar.pattern import PatternResult, pattern_for
from gateway.grammar.problems import GrammarSyntaxError
from gateway.tools import function
from gateway.tools.arguments import INPUT_FIELD, InputReader
from gateway.tools.gate import CallVerdict, Gate
from gateway.tools.options import ToolOptions
from gateway.tools.row import CallIds, CallStream, Row
from gateway.wire import events
from gateway.wire.json import JSON, dumps_str

ID_PREFIX = "ctc"

_FIELD_HINT = f"Put the text, as it is, into the string `{INPUT_FIELD}`."
_GRAMMAR_HINT = {
    "lark": "The text must match this Lark grammar, character by character:",
    "regex": "The whole text must match this regular expression:",
}


def check_tool(tool: JSON, path: str, options: ToolOptions) -> None:
    """Loads the tool's grammar and writes its pattern, both of which are remembered.

    Raises:
        RequestError: the definition is empty or broken.
    """
    try:
        if options.pattern:
            _pattern(tool)
        else:
            grammar_of(tool)
    except GrammarSyntaxError as error:
        raise RequestError(
            f"Invalid grammar of custom tool '{tool['name']}': {error}",
            code="invalid_value",
            param=f"{path}.format.definition",
        ) from None


def grammar_of(tool: JSON) -> Grammar | None:
    """The loaded grammar of a declaration; None for plain text.

    Raises:
        GrammarSyntaxError: the definition is empty or broken.
    """
    form = tool.get("format") or {}
    if form.get("type") != "grammar":
        return None
    return load_grammar(form["syntax"], form["definition"])


def lower_tool(row: Row, options: ToolOptions, *, constrain: bool = True) -> JSON:
    """The function declaration: one required string, the description and the form of the text.

    Args:
        row: the tool.
        options: whether upstream honours a `pattern`, and how.
        constrain: whether it is to be asked for that.
    """
    field: dict[str, Any] = {"type": "string", "description": "The text itself."}
    found = _pattern(row.declaration) if constrain and options.pattern else None
    if found is not None and found.pattern is not None:
        field["pattern"] = found.pattern
    return {
        "type": "function",
        "name": row.upstream,
        "description": _description(row.declaration),
        "parameters": {
            "type": "object",
            "properties": {INPUT_FIELD: field},
            "required": [INPUT_FIELD],
            "additionalProperties": False,
        },
        "strict": "pattern" in field and options.pattern_strict,
    }


def _pattern(tool: JSON) -> PatternResult | None:
    grammar = grammar_of(tool)
    return None if grammar is None else _pattern_of(grammar)


# Texts that have nothing in common: what takes all of them takes nearly anything, as code mode's `exec` does.
_ANY_TEXTS = ("x", "two words\n", '{"a": "b"}')


@functools.lru_cache(maxsize=MAX_LOADED)
def _pattern_of(grammar: Grammar) -> PatternResult:
    """Writing a pattern proves it, which takes some 10 ms: once for each grammar that is kept loaded.

    A constraint that forbids nothing gains nothing, and xgrammar 0.2.9 would read such a pattern over the value instead
    of its JSON form, which forbids line ends and quotes.
    """
    if all(map(grammar.matches, _ANY_TEXTS)):
        return PatternResult(None, "its grammar takes nearly any text")
    return pattern_for(grammar)


def constraint_note(tool: JSON, options: ToolOptions) -> str | None:
    """Why a tool's grammar cannot be sent as a `pattern`, for the log; None when it can or there is none."""
    found = _pattern(tool) if options.pattern else None
    if found is None or found.pattern is not None:
        return None
    return f"custom tool '{tool['name']}' is not constrained: {found.reason}"


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
        self._row = row
        self._call_id = ids.call_id
        self._index = ids.output_index
        self._id = ids.new_id(ID_PREFIX)
        self._reader = InputReader()
        self._text: list[str] = []
        grammar = grammar_of(row.declaration)
        self._gate = None if grammar is None else Gate(grammar)
        self.verdict: CallVerdict | None = None

    def _item(self, text: str, status: str) -> JSON:
        return {
            "id": self._id,
            "type": "custom_tool_call",
            "status": status,
            "call_id": self._call_id,
            "input": text,
            **self._row.restored(),
        }

    def open(self) -> list[JSON]:
        return [events.item_added(self._index, self._item("", "in_progress"))]

    def delta(self, fragment: str) -> list[JSON]:
        return self._pass(self._reader.feed(fragment))

    def _pass(self, text: str) -> list[JSON]:
        return self._emit(text if self._gate is None else self._gate.feed(text))

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
        public = self._pass(self._reader.finish())
        if self._gate is not None:
            rest, self.verdict = self._gate.finish(self._call_id, self._row.name)
            public += self._emit(rest)
        text = "".join(self._text)
        item = self._item(text, "completed")
        public.append(events.done("custom_tool_call_input", self._id, self._index, "input", text))
        public.append(events.item_done(self._index, item))
        return public, item

    def cut(self, arguments: str) -> tuple[list[JSON], JSON]:
        return [], self._item("".join(self._text), "incomplete")


class StrictStream:
    """A custom call under `invalid = "function_call"`: held until it is whole, since only then it can be judged.

    A text that matches (as it is, or unwrapped) leaves as the custom call, any other as the ordinary function call that
    the model made; Codex answers that with "aborted".
    """

    def __init__(self, row: Row, ids: CallIds) -> None:
        self._row = row
        self._ids = ids
        self._custom = CustomStream(row, ids)
        self._held: list[JSON] = []

    @property
    def verdict(self) -> CallVerdict | None:
        """Known once the call is closed."""
        return self._custom.verdict

    def open(self) -> list[JSON]:
        self._held = self._custom.open()
        return []

    def delta(self, fragment: str) -> list[JSON]:
        self._held += self._custom.delta(fragment)
        return []

    def close(self, arguments: str) -> tuple[list[JSON], JSON]:
        end, item = self._custom.close(arguments)
        if self.verdict is None or self.verdict.kind != "invalid":
            return [*self._held, *end], item
        plain = function.open_stream(self._row, self._ids)
        closed, call = plain.close(arguments)
        return [*plain.open(), *plain.delta(arguments), *closed], call

    def cut(self, arguments: str) -> tuple[list[JSON], JSON]:
        _, item = self._custom.cut(arguments)
        return self._held, item


def open_stream(row: Row, ids: CallIds, options: ToolOptions) -> CallStream:
    """The stream of a call to this tool."""
    is_strict = options.invalid_of(row.name) == "function_call"
    if is_strict and grammar_of(row.declaration) is not None:
        return StrictStream(row, ids)
    return CustomStream(row, ids)
