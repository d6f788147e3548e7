"""A public history becomes messages, function calls, their outputs and reasoning."""

import json
import re
from copy import deepcopy

import pytest

from gateway.tools.table import ToolTable
from gateway.turn.lowering import lower_items, merge_outputs
from gateway.turn.pairing import pair
from gateway.wire.request import check_request

PATCH = {"type": "custom", "name": "apply_patch"}
WEATHER = {
    "type": "namespace",
    "name": "mcp__weather",
    "tools": [{"type": "function", "name": "get_forecast", "description": "Forecast."}],
}
SEARCH = {"type": "tool_search", "execution": "client"}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


def lower(items, tools=(PATCH, SEARCH)):
    before = deepcopy(items)
    table = ToolTable.build(list(tools), items)
    lowered = lower_items(pair(items), table)
    assert items == before
    return lowered


def message(role, content, **fields):
    return {"type": "message", "role": role, "content": content, **fields}


def function_call(call_id, name, arguments):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def function_output(call_id, output):
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def custom_call(call_id="c", **fields):
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": call_id, "status": "completed"}
    return {**item, "name": "apply_patch", "input": "*** Begin", **fields}


def custom_output(output, call_id="c", **fields):
    return {"type": "custom_tool_call_output", "call_id": call_id, "output": output, **fields}


OTHERS = {
    "a message": (
        message("user", "hi", id="msg_1", status="completed", phase="commentary"),
        [message("user", "hi")],
    ),
    "message parts": (
        message("assistant", [{"type": "output_text", "text": "x", "annotations": []}]),
        [message("assistant", [{"type": "output_text", "text": "x", "annotations": []}])],
    ),
    "reasoning": (
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s"}],
            "content": [{"type": "reasoning_text", "text": "t"}],
            "encrypted_content": "secret",
        },
        [
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "s"}],
                "content": [{"type": "reasoning_text", "text": "t"}],
            }
        ],
    ),
    "reasoning with text only": (
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "t"}],
        },
        [
            {
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "t"}],
            }
        ],
    ),
    "reasoning that nobody here can read": (
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "secret"},
        [],
    ),
    "additional_tools": ({"type": "additional_tools", "role": "developer", "tools": []}, []),
    "an unknown item": (
        {
            "type": "agent_message",
            "id": "amsg_1",
            "status": "completed",
            "internal_chat_message_metadata_passthrough": {"turn_id": "t"},
            "author": "a",
            "content": [1],
        },
        [{"type": "agent_message", "author": "a", "content": [1]}],
    ),
}


@pytest.mark.parametrize(("item", "lowered"), OTHERS.values(), ids=OTHERS)
def test_items_that_are_no_calls(item, lowered):
    assert lower([item]) == lowered


def test_calls_of_every_kind():
    items = [
        {**function_call("a", "get_forecast", "{}"), "namespace": "mcp__weather", "id": "fc_1"},
        custom_call("b"),
        {**function_call("d", "gone", "{"), "namespace": "mcp__gone"},
        function_output("a", "sun"),
        custom_output("done", "b", name="apply_patch", id="ctco_1"),
        function_output("d", [IMAGE]),
    ]
    assert lower(items, [PATCH, WEATHER]) == [
        function_call("a", "mcp__weather__get_forecast", "{}"),
        function_call("b", "apply_patch", '{"input":"*** Begin"}'),
        function_call("d", "mcp__gone__gone", "{"),
        function_output("a", "sun"),
        function_output("b", "done"),
        function_output("d", [IMAGE]),
    ]


def test_a_custom_call_is_accepted_though_the_tool_is_not_declared_now():
    lowered = lower([custom_call(), custom_output("ok")], [])
    assert lowered[0]["name"] == "apply_patch"


def test_a_search_tells_which_functions_may_be_called_by_their_upstream_names():
    common = {"execution": "client", "call_id": "s"}
    items = [
        {"type": "tool_search_call", "id": "tsc_1", **common, "arguments": {"query": "sun"}},
        {"type": "tool_search_output", **common, "tools": [WEATHER]},
    ]
    call, output = lower(items)
    assert call == function_call("s", "tool_search", '{"query":"sun"}')
    assert (output["type"], output["call_id"]) == ("function_call_output", "s")
    assert json.loads(output["output"]) == {
        "tools": [{"name": "mcp__weather__get_forecast", "description": "Forecast."}]
    }


def test_a_search_that_loads_nothing_is_still_answered():
    items = [
        {"type": "tool_search_call", "call_id": "s", "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "call_id": "s", "execution": "server", "tools": [WEATHER]},
    ]
    assert lower(items)[1] == function_output("s", '{"tools":[]}')


@pytest.mark.parametrize(
    "call",
    [
        function_call("c", "f", "{}"),
        custom_call(),
        {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
    ],
)
def test_an_interrupted_call_was_aborted(call):
    lowered = lower([call, message("user", "go on")])
    assert lowered[1:] == [function_output("c", "aborted"), message("user", "go on")]


@pytest.mark.parametrize(
    ("outputs", "merged"),
    [
        (["a"], "a"),
        ([[IMAGE]], [IMAGE]),
        (["a", "b", "c"], "a\nb\nc"),
        (["a", [IMAGE]], [{"type": "input_text", "text": "a"}, IMAGE]),
        ([[IMAGE], "b", [IMAGE]], [IMAGE, {"type": "input_text", "text": "b"}, IMAGE]),
    ],
)
def test_several_outputs_become_one(outputs, merged):
    assert merge_outputs(outputs) == merged
    lowered = lower([custom_call(), *(custom_output(output) for output in outputs)])
    assert lowered[1:] == [function_output("c", merged)]


@pytest.mark.parametrize(
    ("output", "parts"), [("late", [{"type": "input_text", "text": "late"}]), ([IMAGE], [IMAGE])]
)
def test_a_late_output_becomes_a_message_in_its_place(output, parts):
    items = [custom_call(), custom_output("a"), message("assistant", "m"), custom_output(output)]
    label = {"type": "input_text", "text": "[further output of apply_patch, call c]"}
    assert lower(items)[2:] == [message("assistant", "m"), message("user", [label, *parts])]


def test_a_repeated_call_id_is_numbered_in_call_and_output():
    items = [custom_call(), custom_output("1"), custom_call(), custom_output("2")]
    assert [(item["type"], item["call_id"]) for item in lower(items)] == [
        ("function_call", "c"),
        ("function_call_output", "c"),
        ("function_call", "c_2"),
        ("function_call_output", "c_2"),
    ]


@pytest.mark.parametrize("name", ["", " ", "\0", "é", ".", "x" * 200, "tool_search", "f f"])
@pytest.mark.parametrize("search", [[], [{"type": "tool_search", "execution": "client"}]])
def test_a_call_of_any_name_can_be_sent_back(name, search):
    """A model may call anything, nothing included: the thread goes on, and no tool is taken for another."""
    items = [function_call("c", name, "{}"), function_output("c", "unsupported call")]
    request = {"model": "m", "input": items, "tools": search}
    assert check_request(request) is request
    table = ToolTable.build(search, items)
    sent = lower_items(pair(items), table)[0]["name"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", sent)
    assert (sent == table.search_name()) == (name == "tool_search")
