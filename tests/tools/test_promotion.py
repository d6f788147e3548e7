"""The promotion rule: which pairs of tool_search count."""

import pytest

from gateway.tools.promotion import completed_pairs, is_usable

TOOLS = [{"type": "function", "name": "f"}]
OTHER = [{"type": "function", "name": "g"}]


def call(call_id="c", **fields):
    item = {"type": "tool_search_call", "call_id": call_id, "execution": "client"}
    return {**item, "status": "completed", "arguments": {"query": "f"}, **fields}


def output(call_id="c", **fields):
    item = {"type": "tool_search_output", "call_id": call_id, "execution": "client"}
    return {**item, "status": "completed", "tools": TOOLS, **fields}


def without(item, key):
    return {name: value for name, value in item.items() if name != key}


MESSAGE = {"type": "message", "role": "user", "content": "hi"}

# items -> [(call_id, position, tools)]
PAIRS = {
    "completed": ([call(), output()], [("c", 1, TOOLS)]),
    "absent status": ([without(call(), "status"), without(output(), "status")], [("c", 1, TOOLS)]),
    "null status": ([call(status=None), output(status=None)], [("c", 1, TOOLS)]),
    "far apart": ([call(), MESSAGE, MESSAGE, output()], [("c", 3, TOOLS)]),
    "in order of outputs": (
        [call("a"), call("b"), output("b", tools=OTHER), output("a")],
        [("b", 2, OTHER), ("a", 3, TOOLS)],
    ),
    "incomplete output, then a completed one": (
        [call(), output(status="incomplete", tools=OTHER), output()],
        [("c", 2, TOOLS)],
    ),
    "duplicate output": ([call(), output(), output()], [("c", 1, TOOLS)]),
    "conflicting outputs": ([call(), output(), output(tools=OTHER)], [("c", 1, TOOLS)]),
    "repeated call": ([call(), call(), output()], [("c", 2, TOOLS)]),
    "conflicting call behind the pair": (
        [call(), output(), call(arguments={"query": "g"}), output(tools=OTHER)],
        [("c", 1, TOOLS)],
    ),
    "output and call and output": ([output(tools=OTHER), call(), output()], [("c", 2, TOOLS)]),
    "nothing found": ([call(), output(tools=[])], [("c", 1, [])]),
}
NO_PAIRS = {
    "no items": [],
    "unanswered": [call()],
    "unmatched output": [output()],
    "another call_id": [call("a"), output("b")],
    "output before its call": [output(), call()],
    "incomplete call": [call(status="incomplete"), output()],
    "call in progress": [call(status="in_progress"), output()],
    "incomplete output": [call(), output(status="incomplete")],
    "failed output": [call(), output(status="failed")],
    "empty call_id": [call(""), output("")],
    "null call_id": [call(None), output(None)],
    "missing call_id": [without(call(), "call_id"), without(output(), "call_id")],
    "number as call_id": [call(3), output(3)],
    "server call": [call(execution="server"), output()],
    "server output": [call(), output(execution="server")],
    "no execution": [without(call(), "execution"), without(output(), "execution")],
    "null execution": [call(execution=None), output(execution=None)],
    "ambiguous calls": [call(), call(arguments={"query": "g"}), output()],
    "another kind of call": [
        {"type": "function_call", "call_id": "c", "name": "tool_search", "arguments": "{}"},
        output(),
    ],
    "another kind of output": [
        call(),
        {"type": "function_call_output", "call_id": "c", "output": "[]"},
    ],
}


@pytest.mark.parametrize(("items", "pairs"), PAIRS.values(), ids=PAIRS)
def test_pairs(items, pairs):
    found = [(pair.call_id, pair.position, pair.tools) for pair in completed_pairs(items)]
    assert found == pairs


@pytest.mark.parametrize("items", NO_PAIRS.values(), ids=NO_PAIRS)
def test_no_pairs(items):
    assert completed_pairs(items) == []


GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "f"},
        {"type": "function", "name": "f", "description": "d", "parameters": {}},
        {"type": "function", "name": "f", "parameters": None, "defer_loading": True},
        {"type": "custom", "name": "f"},
        {"type": "custom", "name": "f", "format": {"type": "text"}},
        {"type": "custom", "name": "f", "format": GRAMMAR},
        {"type": "custom", "name": "f", "format": {**GRAMMAR, "syntax": "regex"}},
    ],
)
def test_usable_declarations(tool):
    assert is_usable(tool)


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function"},
        {"type": "function", "name": ""},
        {"type": "function", "name": 3},
        {"type": "function", "name": "f", "description": {"text": "d"}},
        {"type": "function", "name": "f", "parameters": "{}"},
        {"type": "custom", "name": "f", "format": "lark"},
        {"type": "custom", "name": "f", "format": {"type": "lark"}},
        {"type": "custom", "name": "f", "format": {**GRAMMAR, "syntax": "ebnf"}},
        {"type": "custom", "name": "f", "format": {**GRAMMAR, "definition": None}},
        {"type": "namespace", "name": "f", "tools": []},
        {"type": "web_search", "name": "f"},
        {"name": "f"},
    ],
)
def test_unusable_declarations(tool):
    assert not is_usable(tool)
