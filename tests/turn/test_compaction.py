"""Compaction: what is sealed, what comes back, and that nothing is lost halfway."""

import json
from copy import deepcopy

import pytest

from gateway.errors import InternalError, RequestError
from gateway.tools.table import ToolTable
from gateway.turn.compaction import (
    NO_SEALER,
    Plan,
    Sealer,
    Summarizer,
    expand,
    is_compaction,
    kept_tools,
    question,
)
from gateway.turn.history import History
from gateway.turn.request import TurnOptions
from gateway.turn.turn import Turn
from tests.shared import check_stream
from tests.turn.canonical_streams import (
    USAGE,
    Answer,
    call,
    completed,
    failed,
    incomplete,
    message,
)

SEALER = Sealer(seal=json.dumps, unseal=json.loads)
USER = {"type": "message", "role": "user", "content": "hi"}
TRIGGER = {"type": "compaction_trigger"}
NOTHING = {"system": [], "tools": [], "pending": [], "tail": [], "starts_over": False}
SEARCH = {"type": "tool_search", "execution": "client"}


def function(name, **fields):
    return {"type": "function", "name": name, **fields}


def namespace(name, *members):
    return {"type": "namespace", "name": name, "description": "", "tools": list(members)}


def search(*tools):
    common = {"execution": "client", "call_id": "s1"}
    return [
        {"type": "tool_search_call", **common, "arguments": {}},
        {"type": "tool_search_output", **common, "tools": list(tools)},
    ]


def sealed(kind="compaction", **fields):
    value = {"version": 1, "summary": "S", **NOTHING, **fields}
    return {"type": kind, "id": "cmp_1", "encrypted_content": json.dumps(value)}


@pytest.mark.parametrize(
    ("items", "asked"), [([], False), ([USER], False), ([TRIGGER], True), ([USER, TRIGGER], True)]
)
def test_the_trigger_is_the_final_item(items, asked):
    assert is_compaction(items) is asked


def test_a_trigger_elsewhere_is_refused():
    with pytest.raises(RequestError) as refused:
        is_compaction([USER, TRIGGER, USER])
    assert (refused.value.status, refused.value.param) == (400, "input[1]")


def test_without_a_sealed_item_nothing_changes():
    items = [USER]
    assert expand(items, NO_SEALER) is items


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary"])
def test_a_sealed_item_becomes_its_history(kind):
    pending = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    items = [sealed(kind, tools=[function("f")], pending=[pending]), USER]
    before = deepcopy(items)
    summary, tools, call_item, user = expand(items, SEALER)
    assert (summary["type"], summary["role"]) == ("message", "user")
    assert summary["content"][0]["text"].endswith("\n\nS")
    assert tools == {"type": "additional_tools", "role": "developer", "tools": [function("f")]}
    assert (call_item, user) == (pending, USER)
    assert items == before


def test_without_tools_there_is_no_item_for_them():
    assert len(expand([sealed()], SEALER)) == 1


@pytest.mark.parametrize(
    ("item", "sealer", "said"),
    [
        ({"type": "compaction", "encrypted_content": "gAAAA"}, SEALER, "not made by this gateway"),
        (sealed(), NO_SEALER, "not made by this gateway"),
        (sealed(version=2), SEALER, "version 2"),
    ],
)
def test_foreign_blobs_are_refused_with_words(item, sealer, said):
    with pytest.raises(RequestError, match=said) as refused:
        expand([USER, USER, item], sealer, first_new=1)
    assert (refused.value.status, refused.value.code) == (400, "invalid_encrypted_content")
    assert refused.value.param == "input[1].encrypted_content"


def test_without_a_key_nothing_is_sealed():
    with pytest.raises(InternalError):
        NO_SEALER.seal({})


def test_the_question_is_the_users():
    assert question()["role"] == "user"


def test_system_text_that_the_client_sends_again_is_there_once():
    kind, brief = (
        {"type": "message", "role": "developer", "content": text}
        for text in ("Be kind.", "Be brief.")
    )
    parts = [{"type": "input_text", "text": "Be kind."}]
    again = {"type": "message", "role": "developer", "content": parts}
    expanded = expand([again, USER, sealed(system=[kind, brief])], SEALER)
    assert expanded[:3] == [again, USER, brief]
    assert len(expanded) == 4


def test_a_compaction_of_everything_leaves_nothing_before_it():
    call_item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    whole = sealed(starts_over=True, system=[USER], tail=[call_item])
    expanded = expand([USER, USER, whole, USER], SEALER)
    assert [item["type"] for item in expanded] == ["message"] * 2 + ["function_call", "message"]


def test_only_tools_of_the_history_are_kept():
    declared = [SEARCH, function("shell"), namespace("ns", function("m", defer_loading=True))]
    additional = {
        "type": "additional_tools",
        "tools": [function("a"), function("d", defer_loading=True)],
    }
    found = [
        function("bare", defer_loading=True),
        namespace("ns", function("m"), function("new")),
        function("shell"),
    ]
    table = ToolTable.build(declared, [additional, *search(*found)])
    assert kept_tools(table) == [
        function("a"),
        function("d", defer_loading=True),
        namespace("bare", function("bare")),
        namespace("ns", function("m"), function("new")),
    ]


def test_kept_tools_can_be_called_after_the_compaction():
    tools = [SEARCH, namespace("ns", function("m", defer_loading=True))]
    before = ToolTable.build(tools, search(namespace("ns", function("m")), function("bare")))
    item = {"type": "additional_tools", "tools": kept_tools(before)}
    after = ToolTable.build(tools, [item])
    assert [row.public for row in after.rows()] == [row.public for row in before.rows()]


def feed(*events):
    plan = Plan(
        head=[], tail=[], system=[], tools=[function("f")], pending=[USER], starts_over=False
    )
    summarizer = Summarizer(SEALER, plan, lambda prefix: f"{prefix}_1")
    return [*summarizer.begin(), *(out for event in events for out in summarizer.feed(event))]


def test_a_summary_becomes_one_sealed_item():
    text = message(["  Sum", "mary\n"], [], "completed")
    noise = call("shell", "c", ["{}"], "completed")
    added, working, done, end = feed(*Answer([text, noise], completed()).events())
    assert (added["type"], done["type"]) == (
        "response.output_item.added",
        "response.output_item.done",
    )
    assert added["item"] == {**done["item"], "encrypted_content": ""}
    assert working["type"] == "response.compaction.compacting"
    assert working["item_id"] == "cmp_1"
    assert done["item"]["id"] == "cmp_1"
    assert json.loads(done["item"]["encrypted_content"]) == {
        "version": 1,
        "summary": "Summary",
        **NOTHING,
        "tools": [function("f")],
        "pending": [USER],
    }
    assert end == completed()


@pytest.mark.parametrize(
    ("text", "terminal", "said"),
    [
        (["half"], incomplete(), "was cut off"),
        ([], completed(), "gave no summary"),
        ([" \n"], completed(), "gave no summary"),
    ],
)
def test_half_a_summary_fails_closed(text, terminal, said):
    *_, event = feed(*Answer([message(text, [], "completed")], terminal).events())
    assert event["type"] == "response.failed"
    assert said in event["response"]["error"]["message"]
    assert event["response"]["usage"] == USAGE


def test_a_failure_stays_a_failure():
    assert feed(failed("rate_limit_exceeded"))[2:] == [failed("rate_limit_exceeded")]


def test_a_call_that_waits_is_answered_after_the_compaction():
    """The whole way: a pending call, a compaction, and its output in the request behind it."""
    tools = [function("shell", parameters={}, strict=False)]

    def turn(items, history):
        request = {"model": "m", "tools": tools, "input": items}
        ids = iter(range(100))
        options = TurnOptions(sealer=SEALER)
        made = Turn(request, history, options, lambda p: f"{p}_{next(ids)}", lambda: 1)
        made.send()
        return made, request

    first, _ = turn([USER], History())
    for event in Answer([call("shell", "call_a", ["{}"], "completed")], completed()).events():
        first.receive(event)
    second, request = turn([TRIGGER], first.next_history())
    for event in Answer([message(["S"], [], "completed")], completed()).events():
        second.receive(event)
    check_stream(second.events_to_send(), request=request)
    output = {"type": "function_call_output", "call_id": "call_a", "output": "ran"}
    third, _ = turn([output], second.next_history())
    assert [item["type"] for item in third.request_to_send()["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]
