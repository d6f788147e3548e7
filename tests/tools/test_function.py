"""Function tools."""

from copy import deepcopy

import pytest

from gateway.tools import function
from gateway.tools.row import CallIds, Row

IDS = CallIds(new_id=lambda prefix: f"{prefix}_1", call_id="call_1", output_index=3)


def row(declaration, namespace=None):
    return Row(
        kind="function",
        name=declaration["name"],
        namespace=namespace,
        upstream="ns__f",
        declaration=declaration,
        path="tools[0]",
    )


@pytest.mark.parametrize(
    ("declared", "lowered"),
    [
        ({}, {"parameters": {"type": "object", "properties": {}}}),
        (
            {"description": "d", "parameters": {"type": "object"}, "strict": True},
            {"description": "d", "parameters": {"type": "object"}, "strict": True},
        ),
        (
            {"description": "", "parameters": None, "strict": None, "defer_loading": True, "x": 1},
            {"parameters": {"type": "object", "properties": {}}},
        ),
        ({"strict": False}, {"parameters": {"type": "object", "properties": {}}, "strict": False}),
    ],
)
def test_a_declaration_keeps_what_a_function_has(declared, lowered):
    declaration = {"type": "function", "name": "f", **declared}
    before = deepcopy(declaration)
    expected = {"type": "function", "name": "ns__f", **lowered}
    assert function.lower_tool(row(declaration)) == expected
    assert declaration == before


def test_history_items_keep_only_what_upstream_knows():
    call = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c"}
    call |= {"name": "f", "namespace": "ns", "arguments": "{}"}
    assert function.lower_call(call, "ns__f") == {
        "type": "function_call",
        "call_id": "c",
        "name": "ns__f",
        "arguments": "{}",
    }
    output = {
        "id": "x",
        "type": "custom_tool_call_output",
        "call_id": "c",
        "output": [{"type": "t"}],
    }
    assert function.lower_output(output) == {
        "type": "function_call_output",
        "call_id": "c",
        "output": [{"type": "t"}],
    }


@pytest.mark.parametrize(
    ("stream", "keys"),
    [
        (
            function.open_stream(row({"name": "f"}, "ns"), IDS),
            {"name": "f", "namespace": "ns"},
        ),
        (function.open_unknown({"name": "who"}, IDS), {"name": "who"}),
    ],
)
def test_a_call_streams_as_it_is(stream, keys):
    base = {"id": "fc_1", "type": "function_call", "call_id": "call_1", **keys}
    at = {"output_index": 3}
    assert stream.open() == [
        {
            "type": "response.output_item.added",
            **at,
            "item": {**base, "status": "in_progress", "arguments": ""},
        }
    ]
    assert stream.delta('{"a') == [
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_1",
            **at,
            "delta": '{"a',
        }
    ]
    item = {**base, "status": "completed", "arguments": '{"a":1}'}
    assert stream.close('{"a":1}') == (
        [
            {
                "type": "response.function_call_arguments.done",
                "item_id": "fc_1",
                **at,
                "arguments": '{"a":1}',
            },
            {"type": "response.output_item.done", **at, "item": item},
        ],
        item,
    )


def test_a_cut_call_is_never_done():
    stream = function.open_unknown({"name": "f"}, IDS)
    events, item = stream.cut('{"a')
    assert events == []
    assert item["status"] == "incomplete"
    assert item["arguments"] == '{"a'
