"""Client-executed tool_search: the fallback function and its calls."""

import json

import pytest

from gateway.tools import search
from gateway.tools.row import CallIds, Row

IDS = CallIds(new_id=lambda prefix: f"{prefix}_1", call_id="call_1", output_index=2)


def search_row(**declared):
    return Row(
        kind="tool_search",
        name="tool_search",
        namespace=None,
        upstream="tool_search",
        declaration={"type": "tool_search", "execution": "client", **declared},
        path="tools[0]",
    )


def function_row(upstream, description=None):
    return Row(
        kind="function",
        name=upstream,
        namespace=None,
        upstream=upstream,
        declaration={"type": "function", "name": upstream, "description": description},
        path="tools[1]",
    )


@pytest.mark.parametrize(
    ("tool", "is_ours"),
    [
        ({"type": "tool_search", "execution": "client"}, True),
        ({"type": "tool_search", "execution": "server"}, False),
        ({"type": "tool_search"}, False),
        ({"type": "function", "execution": "client"}, False),
    ],
)
def test_whose_search_it_is(tool, is_ours):
    assert search.is_client_search(tool) is is_ours


@pytest.mark.parametrize(
    ("tool", "is_usable"),
    [
        ({}, True),
        ({"description": "d", "parameters": {}}, True),
        ({"description": 3}, False),
        ({"parameters": "p"}, False),
    ],
)
def test_declarations_inside_items_are_looked_at(tool, is_usable):
    assert search.is_usable(tool) is is_usable


def test_the_fallback_keeps_description_and_parameters():
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    lowered = search.lower_tool(search_row(description="Find.", parameters=parameters), [])
    assert lowered == {
        "type": "function",
        "name": "tool_search",
        "description": "Find.",
        "parameters": parameters,
        "strict": False,
    }


def test_a_declaration_may_leave_both_out():
    lowered = search.lower_tool(search_row(), [])
    assert lowered["description"]
    assert lowered["parameters"]["required"] == ["query"]


def test_deferred_tools_stand_in_the_description_one_line_each():
    rows = [
        function_row("a", "Does a.\nIn detail."),
        function_row("b"),
        function_row("c", "long " * 100),
    ]
    lines = search.lower_tool(search_row(description="Find."), rows)["description"].split("\n")
    assert lines[:4] == ["Find.", "Tools that can be found:", "- a: Does a.", "- b"]
    assert len(lines[4]) == search.MAX_DEFERRED_LINE_CHARS
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"query": "x"}, '{"query":"x"}'),
        ({}, "{}"),
        (None, "{}"),
        ('{"query": "x"}', '{"query": "x"}'),
    ],
)
def test_a_call_of_the_history(arguments, text):
    item = {"id": "tsc_1", "type": "tool_search_call", "call_id": "c", "arguments": arguments}
    assert search.lower_call(item, "tool_search") == {
        "type": "function_call",
        "call_id": "c",
        "name": "tool_search",
        "arguments": text,
    }


def test_an_output_names_what_may_be_called_by_upstream_names():
    rows = [function_row("ns__a", "Does a."), function_row("b")]
    lowered = search.lower_output({"call_id": "c", "tools": []}, rows)
    assert json.loads(lowered.pop("output")) == {
        "tools": [
            {"name": "ns__a", "description": "Does a."},
            {"name": "b", "description": ""},
        ]
    }
    assert lowered == {"type": "function_call_output", "call_id": "c"}


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('{"query": "x"}', {"query": "x"}),
        ("{}", {}),
        ("", {}),
        (" \n", {}),
        ("[]", None),
        ('"x"', None),
        ("null", None),
        ('{"query": ', None),
        ("query", None),
    ],
)
def test_arguments_are_an_object_or_the_call_is_malformed(arguments, value):
    assert search.parse_arguments(arguments) == value


def test_a_well_formed_call_is_added_empty_and_done_whole():
    stream = search.open_stream(search_row(), IDS)
    assert stream.open() == []
    assert stream.delta('{"query": "x"}') == []
    base = {
        "id": "tsc_1",
        "type": "tool_search_call",
        "execution": "client",
        "call_id": "call_1",
    }
    item = {**base, "status": "completed", "arguments": {"query": "x"}}
    added = {**base, "status": "in_progress", "arguments": {}}
    assert stream.close('{"query": "x"}') == (
        [
            {"type": "response.output_item.added", "output_index": 2, "item": added},
            {"type": "response.output_item.done", "output_index": 2, "item": item},
        ],
        item,
    )


@pytest.mark.parametrize("arguments", ["[1]", '{"query"', "words"])
def test_a_malformed_call_stays_the_function_call_that_it_is(arguments):
    events, item = search.open_stream(search_row(), IDS).close(arguments)
    assert [event["type"] for event in events] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert item == {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "tool_search",
        "arguments": arguments,
    }
    assert events[-1]["item"] == item


def test_a_cut_call_is_shown_and_never_done():
    events, item = search.open_stream(search_row(), IDS).cut('{"que')
    assert [event["type"] for event in events] == ["response.output_item.added"]
    assert (item["status"], item["arguments"]) == ("incomplete", {})
