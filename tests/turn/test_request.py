"""One public request becomes one lowered request."""

import json
from copy import deepcopy

import pytest

from gateway.errors import RequestError
from gateway.tools.options import ToolOptions
from gateway.turn.compaction import PENDING, Sealer
from gateway.turn.history import History
from gateway.turn.request import PASSED_FIELDS, Lowering, prepare

USER = {"type": "message", "role": "user", "content": "hi"}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
TRIGGER = {"type": "compaction_trigger"}
SEALER = Sealer(seal=json.dumps, unseal=json.loads)


def lower(history=None, options=None, **request):
    request = {"model": "public", "input": [USER], **request}
    before = deepcopy(request)
    prepared = prepare(
        request, history or History(), Lowering(options or ToolOptions(), "up", SEALER)
    )
    assert request == before
    return prepared


def test_the_least():
    prepared = lower()
    assert prepared.lowered == {"model": "up", "stream": False, "input": [USER]}
    assert (prepared.new_items, prepared.public_tools) == ([USER], [])
    assert (prepared.plan, prepared.thread.notes) == (None, [])


def test_the_history_stands_before_the_new_input():
    history = History().extended([USER], [CALL])
    prepared = lower(history, input=[OUTPUT])
    assert prepared.new_items == [OUTPUT]
    assert [item["type"] for item in prepared.lowered["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]


def test_input_is_the_last_key_so_that_a_grown_history_extends_the_bytes():
    lowered = lower(tools=[FUNCTION], temperature=0, instructions="Be kind.").lowered
    assert list(lowered)[-1] == "input"
    longer = lower(tools=[FUNCTION], temperature=0, instructions="Be kind.", input=[USER, USER])
    assert json.dumps(longer.lowered).startswith(json.dumps(lowered)[:-2])


def test_instructions_and_stream():
    lowered = lower(instructions="Be kind.", stream=True).lowered
    assert (lowered["instructions"], lowered["stream"]) == ("Be kind.", True)
    assert "instructions" not in lower(instructions="").lowered
    assert "instructions" not in lower(instructions=None).lowered


@pytest.mark.parametrize("field", PASSED_FIELDS)
def test_fields_about_the_generation_are_passed_as_they_are(field):
    assert lower(**{field: 0}).lowered[field] == 0
    assert field not in lower(**{field: None}).lowered


@pytest.mark.parametrize(
    "field",
    ["store", "include", "previous_response_id", "client_metadata", "generate", "new_field"],
)
def test_everything_else_stays_here(field):
    assert field not in lower(**{field: "x"}).lowered


def test_tools_bring_their_choice():
    lowered = lower(tools=[FUNCTION], parallel_tool_calls=False).lowered
    assert lowered["tools"] == [FUNCTION]
    assert lowered["tool_choice"] == "auto"
    assert lowered["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in lower(tools=[FUNCTION]).lowered


@pytest.mark.parametrize("tools", [None, [], [{"type": "web_search"}]])
def test_without_tools_nothing_is_said_about_them(tools):
    lowered = lower(tools=tools, tool_choice="auto", parallel_tool_calls=True).lowered
    assert set(lowered) == {"model", "stream", "input"}


def test_hosted_tools_stand_behind_the_functions():
    hosted = {"type": "web_search"}
    prepared = lower(options=ToolOptions(hosted="pass"), tools=[hosted, FUNCTION])
    assert prepared.lowered["tools"] == [FUNCTION, hosted]
    assert prepared.public_tools == [hosted, FUNCTION]


def test_notes_are_collected():
    orphan = {"type": "tool_search_output", "call_id": "x", "execution": "client", "tools": []}
    prepared = lower(tools=[FUNCTION, {**FUNCTION, "strict": True}], input=[orphan])
    assert len(prepared.thread.notes) == 2


@pytest.mark.parametrize(
    ("history", "request_fields", "message"),
    [
        (None, {"input": [OUTPUT]}, "No tool call found for function call output"),
        (History().extended([USER], [CALL]), {}, "No tool output found for function call c"),
        (None, {"tool_choice": {"type": "function", "name": "x"}}, "Tool choice 'x' not found"),
    ],
)
def test_what_cannot_be_lowered_is_refused(history, request_fields, message):
    with pytest.raises(RequestError, match=message):
        lower(history, **request_fields)


def test_a_trigger_asks_for_a_summary():
    history = History().extended([USER], [CALL])
    prepared = lower(history, input=[USER, TRIGGER], tools=[FUNCTION], tool_choice="required")
    assert prepared.plan is not None
    assert prepared.plan.pending == [CALL]
    assert prepared.new_items == [USER]
    assert prepared.lowered["tool_choice"] == "none"
    assert prepared.lowered["input"][-1]["role"] == "user"
    assert len(prepared.lowered["input"]) == 5  # user, call, its synthetic output, user, the ask
    assert prepared.lowered["input"][2]["output"] == PENDING  # and not that it was aborted


def test_sealed_items_are_opened():
    sealed = {
        "version": 1,
        "summary": "S",
        "system": [],
        "tools": [FUNCTION],
        "pending": [],
        "tail": [],
        "starts_over": False,
    }
    item = {"type": "compaction", "encrypted_content": json.dumps(sealed)}
    lowered = lower(input=[item, USER]).lowered
    assert lowered["tools"] == [FUNCTION]
    assert lowered["input"][0]["content"][0]["text"].endswith("S")
    assert lowered["input"][1] == USER
