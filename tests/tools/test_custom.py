"""Custom tools."""

import json
from copy import deepcopy

import pytest

from gateway.tools import custom
from gateway.tools.row import CallIds, Row

IDS = CallIds(new_id=lambda prefix: f"{prefix}_1", call_id="call_1", output_index=0)
HINT = "Put the text, as it is, into the string `input`."


def row(namespace=None, **declared):
    return Row(
        kind="custom",
        name="apply_patch",
        namespace=namespace,
        upstream="apply_patch",
        declaration={"type": "custom", "name": "apply_patch", **declared},
        path="tools[0]",
    )


@pytest.mark.parametrize(
    ("declared", "paragraphs"),
    [
        ({}, [HINT]),
        ({"description": "Edits.", "format": {"type": "text"}}, ["Edits.", HINT]),
        ({"description": None, "format": None}, [HINT]),
        (
            {"format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}},
            [
                HINT,
                "The text must match this Lark grammar, character by character:",
                'start: "x"',
            ],
        ),
        (
            {"format": {"type": "grammar", "syntax": "regex", "definition": "x+"}},
            [HINT, "The whole text must match this regular expression:", "x+"],
        ),
    ],
)
def test_the_model_is_shown_the_form(declared, paragraphs):
    tool = row(**declared, defer_loading=True)
    before = deepcopy(tool.declaration)
    lowered = custom.lower_tool(tool)
    assert lowered["description"] == "\n\n".join(paragraphs)
    assert tool.declaration == before


def test_the_function_has_one_required_string():
    lowered = custom.lower_tool(row())
    assert set(lowered) == {"type", "name", "description", "parameters", "strict"}
    assert (lowered["type"], lowered["name"], lowered["strict"]) == (
        "function",
        "apply_patch",
        False,
    )
    parameters = lowered["parameters"]
    assert parameters["type"] == "object"
    assert parameters["required"] == ["input"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["input"]["type"] == "string"


@pytest.mark.parametrize("text", ["", "*** Begin Patch\n", '"quoted" \\ 😀 \0'])
def test_a_call_of_the_history_has_the_form_that_the_model_is_asked_for(text):
    item = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c", "name": "x", "input": text}
    lowered = custom.lower_call(item, "ns__x")
    assert json.loads(lowered.pop("arguments")) == {"input": text}
    assert lowered == {"type": "function_call", "call_id": "c", "name": "ns__x"}


def run(fragments, namespace=None):
    stream = custom.open_stream(row(namespace), IDS)
    events = stream.open()
    for fragment in fragments:
        events += stream.delta(fragment)
    return stream, events


@pytest.mark.parametrize("namespace", [None, "functions"])
def test_a_call_streams_its_text(namespace):
    stream, events = run(['{"in', 'put": "a\\', "nb", '"', "}"], namespace)
    end, item = stream.close("ignored")
    assert [event["type"] for event in [*events, *end]] == [
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
    ]
    names = {"name": "apply_patch"} | ({"namespace": namespace} if namespace else {})
    base = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_1", **names}
    assert events[0]["item"] == {**base, "status": "in_progress", "input": ""}
    assert item == {**base, "status": "completed", "input": "a\nb"}
    assert end[-1]["item"] == item
    assert end[0] == {
        "type": "response.custom_tool_call_input.done",
        "item_id": "ctc_1",
        "output_index": 0,
        "input": "a\nb",
    }
    assert "".join(event.get("delta", "") for event in events) == "a\nb"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "a", "b": 1}', "a"),
        ('{"patch": "a"}', "a"),
        ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ('{"input": "a "b""}', 'a "b""}'),
        ("5", "5"),
        ("{}", "{}"),
    ],
)
def test_deltas_concatenate_to_the_final_input(arguments, text):
    stream, events = run(list(arguments))
    end, item = stream.close(arguments)
    deltas = [event["delta"] for event in [*events, *end] if event["type"].endswith(".delta")]
    assert "".join(deltas) == item["input"] == text
    assert "" not in deltas


def test_a_cut_call_shows_what_there_is_and_is_never_done():
    stream, _ = run(['{"input": "a\\n', "b\\u00"])
    events, item = stream.cut("ignored")
    assert events == []
    assert (item["status"], item["input"]) == ("incomplete", "a\nb")
