"""Calls and outputs: every call gets one output behind the calls of its model turn."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.turn.pairing import Answer, LateOutput, PairedCall, pair

KINDS = {
    "f": ("function_call", "function_call_output"),
    "c": ("custom_tool_call", "custom_tool_call_output"),
    "s": ("tool_search_call", "tool_search_output"),
}
USER = {"type": "message", "role": "user", "content": "hi"}
ASSISTANT = {"type": "message", "role": "assistant", "content": []}
REASONING = {"type": "reasoning", "summary": []}
DEVELOPER = {"type": "message", "role": "developer", "content": "x"}


def call(kind, call_id):
    return {"type": KINDS[kind][0], "call_id": call_id, "name": "n"}


def output(kind, call_id, text="ok"):
    return {"type": KINDS[kind][1], "call_id": call_id, "output": text, "tools": []}


def shape(items, pending=frozenset()):
    """The steps in short: `call id`, `answer id: outputs`, `late id: output`, or the item's role or type."""
    return [_short(step) for step in pair(items, pending).steps]


def _short(step):
    if isinstance(step, PairedCall):
        return f"call {step.upstream_id}"
    if isinstance(step, Answer):
        texts = ", ".join(item["output"] for item in step.call.outputs)
        return f"answer {step.call.upstream_id}: {texts}"
    if isinstance(step, LateOutput):
        return f"late {step.call.upstream_id}: {step.output['output']}"
    return step.get("role") or step["type"]


F = call("f", "x")
SHAPES = {
    "a call and its output": ([F, output("f", "x")], ["call x", "answer x: ok"]),
    "a custom call": ([call("c", "x"), output("c", "x")], ["call x", "answer x: ok"]),
    "a search": ([call("s", "x"), output("s", "x")], ["call x", "answer x: ok"]),
    "parallel calls, outputs in another order": (
        [F, call("c", "y"), output("c", "y", "2"), output("f", "x", "1"), USER],
        ["call x", "call y", "answer x: 1", "answer y: 2", "user"],
    ),
    "each call with its output": (
        [F, output("f", "x"), call("f", "y"), output("f", "y")],
        ["call x", "answer x: ok", "call y", "answer y: ok"],
    ),
    "reasoning between parallel calls": (
        [REASONING, F, REASONING, call("f", "y"), output("f", "x"), output("f", "y")],
        ["reasoning", "call x", "reasoning", "call y", "answer x: ok", "answer y: ok"],
    ),
    "text between call and output": (
        [F, ASSISTANT, output("f", "x")],
        ["call x", "assistant", "answer x: ok"],
    ),
    "stray messages move behind the output": (
        [F, USER, DEVELOPER, output("f", "x")],
        ["call x", "answer x: ok", "user", "developer"],
    ),
    "a stray message between parallel calls": (
        [F, USER, call("f", "y"), output("f", "y", "2"), output("f", "x", "1")],
        ["call x", "answer x: 1", "user", "call y", "answer y: 2"],
    ),
    "interrupted": (
        [F, call("f", "y"), USER],
        ["call x", "call y", "answer x: ", "answer y: ", "user"],
    ),
    "interrupted at the end": ([F], ["call x", "answer x: "]),
    "half interrupted": (
        [F, call("f", "y"), output("f", "y"), USER],
        ["call x", "call y", "answer x: ", "answer y: ok", "user"],
    ),
    "several outputs": (
        [call("c", "x"), output("c", "x", "1"), output("c", "x", "2"), output("c", "x", "3")],
        ["call x", "answer x: 1, 2, 3"],
    ),
    "several outputs between those of others": (
        [
            call("c", "x"),
            F | {"call_id": "y"},
            output("c", "x", "1"),
            output("f", "y", "2"),
            output("c", "x", "3"),
        ],
        ["call x", "call y", "answer x: 1, 3", "answer y: 2"],
    ),
    "a late output": (
        [call("c", "x"), output("c", "x", "1"), ASSISTANT, output("c", "x", "2"), USER],
        ["call x", "answer x: 1", "assistant", "late x: 2", "user"],
    ),
    "a late output behind an open call": (
        [
            call("c", "x"),
            output("c", "x", "1"),
            F | {"call_id": "y"},
            output("c", "x", "2"),
            output("f", "y", "3"),
        ],
        ["call x", "answer x: 1", "call y", "answer y: 3", "late x: 2"],
    ),
    "a call_id again in a later turn": (
        [F, output("f", "x", "1"), F, output("f", "x", "2"), F, output("f", "x", "3")],
        ["call x", "answer x: 1", "call x_2", "answer x_2: 2", "call x_3", "answer x_3: 3"],
    ),
    "a call_id again after an interrupt": (
        [F, USER, F, output("f", "x", "2")],
        ["call x", "answer x: ", "user", "call x_2", "answer x_2: 2"],
    ),
    "a call_id twice in parallel": (
        [F, F, output("f", "x", "1"), output("f", "x", "2"), output("f", "x", "3")],
        ["call x", "call x_2", "answer x: 1", "answer x_2: 2, 3"],
    ),
    "a numbered call_id never meets a real one": (
        [call("f", "x"), call("f", "x_2"), call("f", "x"), USER],
        ["call x", "call x_2", "call x_3", "answer x: ", "answer x_2: ", "answer x_3: ", "user"],
    ),
    "one call_id in two kinds": (
        [F, call("s", "x"), output("s", "x", "found"), output("f", "x", "ran")],
        ["call x", "call x_2", "answer x: ran", "answer x_2: found"],
    ),
    "unknown items end a run": (
        [F, {"type": "agent_message"}, output("f", "x")],
        ["call x", "answer x: ok", "agent_message"],
    ),
}


@pytest.mark.parametrize(("items", "steps"), SHAPES.values(), ids=SHAPES)
def test_shapes(items, steps):
    before = deepcopy(items)
    assert shape(items) == steps
    assert items == before


LEFT_OUT = {
    "a search output without a call": ([output("s", "x"), USER], ["user"], 1),
    "a search output without a call_id": ([output("s", None), USER], ["user"], 1),
    "a search output for a function call": (
        [F, output("s", "x"), output("f", "x")],
        ["call x", "answer x: ok"],
        1,
    ),
    "a duplicate search output": (
        [call("s", "x"), output("s", "x", "1"), output("s", "x", "2")],
        ["call x", "answer x: 1"],
        1,
    ),
    "a late duplicate search output": (
        [call("s", "x"), output("s", "x", "1"), ASSISTANT, output("s", "x", "2")],
        ["call x", "answer x: 1", "assistant"],
        1,
    ),
    "a hosted search": ([call("s", None), output("s", None)], [], 2),
    "a search with an empty call_id": ([call("s", ""), USER], ["user"], 1),
    "an unanswered search": ([call("s", "x"), USER], ["call x", "answer x: ", "user"], 0),
}


@pytest.mark.parametrize(("items", "steps", "notes"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_searches_are_never_an_error(items, steps, notes):
    paired = pair(items, frozenset({"x"}))
    assert [_short(step) for step in paired.steps] == steps
    assert len(paired.notes) == notes


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([output("f", "x")], "No tool call found for function call output with call_id x."),
        ([output("c", "x")], "No tool call found for custom tool call output with call_id x."),
        ([output("f", "x"), F], "No tool call found for function call output with call_id x."),
        (
            [F, output("c", "x")],
            "No tool call found for custom tool call output with call_id x.",
        ),
        (
            [call("s", "x"), output("f", "x")],
            "No tool call found for function call output with call_id x.",
        ),
    ],
)
def test_an_orphan_output(items, message):
    with pytest.raises(RequestError) as refused:
        pair(items)
    assert refused.value.message == message
    assert (refused.value.status, refused.value.param) == (400, "input")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([F, USER], "No tool output found for function call x."),
        ([call("c", "x")], "No tool output found for custom tool call x."),
        (
            [call("f", "y"), F, output("f", "y")],
            "No tool output found for function call x.",
        ),
    ],
)
def test_a_pending_call_must_be_answered(items, message):
    with pytest.raises(RequestError) as refused:
        pair(items, frozenset({"x"}))
    assert refused.value.message == message
    assert (refused.value.status, refused.value.param) == (400, "input")


def test_pending_calls_that_are_answered_or_gone():
    assert shape([F, output("f", "x")], frozenset({"x", "gone"})) == ["call x", "answer x: ok"]
    assert shape([F, USER, output("f", "x")], frozenset({"x"}))[1] == "answer x: ok"


CALLS = st.builds(call, st.sampled_from("fcs"), st.sampled_from(["a", "b", "a_2"]))
ITEMS = st.lists(CALLS | st.sampled_from([USER, ASSISTANT, REASONING]), max_size=10)


@given(ITEMS, st.data())
def test_every_call_has_one_answer_behind_it_and_its_own_id(items, data):
    """Outputs of calls that have been made are dealt at random places behind them."""
    mixed = []
    for item in items:
        mixed.append(item)
        made = [other for other in mixed if "call_id" in other and "output" not in other]
        if made and data.draw(st.booleans()):
            chosen = data.draw(st.sampled_from(made))
            kind = next(k for k, (name, _) in KINDS.items() if name == chosen["type"])
            mixed.append(output(kind, chosen["call_id"], str(len(mixed))))
    steps = pair(mixed).steps
    calls = [step for step in steps if isinstance(step, PairedCall)]
    answered = [step.call for step in steps if isinstance(step, Answer)]
    assert len({step.upstream_id for step in calls}) == len(calls)
    assert [id(step) for step in answered] == [id(step) for step in calls]
    open_calls = []
    for step in steps:
        if isinstance(step, PairedCall):
            open_calls.append(step)
        elif isinstance(step, Answer):
            assert step.call in open_calls
            open_calls.remove(step.call)
        elif isinstance(step, LateOutput) or step.get("role") == "user":
            assert open_calls == []
    outputs = [o for step in calls for o in step.outputs]
    late = [step.output for step in steps if isinstance(step, LateOutput)]
    kept = {o["output"] for o in [*outputs, *late]}
    given_outputs = {
        o["output"] for o in mixed if "output" in o and o["type"] != "tool_search_output"
    }
    assert given_outputs <= kept
