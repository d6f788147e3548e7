"""Whole turns: canonical events in, a public stream out that the stream checker accepts."""

import json
import re
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InternalError, RequestError, UpstreamError
from gateway.tools.arguments import read_input
from gateway.tools.search import parse_arguments
from gateway.turn.compaction import Sealer
from gateway.turn.history import History
from gateway.turn.request import TurnOptions
from gateway.turn.state import TurnState
from gateway.turn.turn import Turn
from gateway.wire.response import ZERO_USAGE
from tests.shared import CUT_CALL_RULE, check_response, check_stream
from tests.turn.canonical_streams import (
    USAGE,
    Answer,
    answers,
    call,
    completed,
    failed,
    foreign,
    incomplete,
    message,
    reasoning,
)

LONG = "m" * 60
TOOLS = [
    {"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": False},
    {"type": "custom", "name": "apply_patch", "description": "Edits."},
    {
        "type": "namespace",
        "name": "mcp__weather",
        "description": "Weather.",
        "tools": [
            {"type": "function", "name": "get_forecast", "parameters": {}, "strict": False},
            {"type": "custom", "name": "note"},
            {"type": "function", "name": LONG, "parameters": {}, "strict": False},
        ],
    },
    {"type": "tool_search", "execution": "client", "description": "Find.", "parameters": {}},
    {"type": "web_search", "external_web_access": True},
]
USER = {"type": "message", "role": "user", "content": "hi"}
REQUEST = {"model": "m", "input": [USER], "tools": TOOLS, "stream": True, "store": False}
HASHED = Turn(REQUEST, History(), TurnOptions(), lambda p: p, lambda: 0).request_to_send()["tools"][
    4
]["name"]
# upstream name -> type, namespace and name of the public call
PUBLIC = {
    "shell": ("function_call", None, "shell"),
    "apply_patch": ("custom_tool_call", None, "apply_patch"),
    "mcp__weather__get_forecast": ("function_call", "mcp__weather", "get_forecast"),
    "mcp__weather.note": ("custom_tool_call", "mcp__weather", "note"),
    "mcp__weather__note": ("custom_tool_call", "mcp__weather", "note"),
    HASHED: ("function_call", "mcp__weather", LONG),
    "tool_search": ("tool_search_call", None, None),
    "never_declared": ("function_call", None, "never_declared"),
}
PRIVATE = re.compile(
    rf"mcp__weather__|mcp__weather\.|{HASHED[-12:]}|is_withheld|is_loaded|upstream"
)


class Clock:
    def __init__(self):
        self.ids = 0
        self.seconds = 1_700_000_000

    def new_id(self, prefix):
        self.ids += 1
        return f"{prefix}_{self.ids}"

    def now(self):
        self.seconds += 1
        return self.seconds


def make(request=REQUEST, history=None, options=None):
    clock = Clock()
    return Turn(request, history or History(), options or TurnOptions(), clock.new_id, clock.now)


def run(turn, answer):
    """The public events of a whole answer."""
    turn.send()
    public = []
    for event in answer.events():
        before = deepcopy(event)
        turn.receive(event)
        assert event == before
        public += turn.events_to_send()
    if answer.terminal is None:
        turn.receive_eof()
    return public + turn.events_to_send()


def types(events):
    return [event["type"].removeprefix("response.") for event in events]


def is_malformed_search(item):
    return (
        item.kind == "call"
        and item.done["name"] == "tool_search"
        and parse_arguments(item.done["arguments"]) is None
    )


def check(public, answer, *, is_broken=False):
    """The checker's verdict; it cannot know what is our decision."""
    ignore = []
    if is_broken or (answer.is_cut and answer.items[-1].kind == "call"):
        ignore.append(CUT_CALL_RULE)
    if any(is_malformed_search(item) for item in answer.items):
        ignore.append("G4")  # a malformed fallback call stays the function call that it is
    check_stream(public, request=REQUEST, ignore=ignore)


# -- the stream


@given(answers(list(PUBLIC)))
def test_every_public_stream_is_a_valid_one(answer):
    turn = make()
    public = run(turn, answer)
    check(public, answer)
    assert turn.is_done
    assert public[-1]["response"] == turn.response
    if turn.state is TurnState.COMPLETED and not any(map(is_malformed_search, answer.items)):
        check_response(turn.response, request=REQUEST)


@given(answers(list(PUBLIC)))
def test_no_upstream_name_reaches_the_client(answer):
    turn = make()
    public = run(turn, answer)
    for event in public:
        assert not PRIVATE.search(json.dumps(event))
    by_name = {item["name"]: item["type"] for item in turn.output if "name" in item}
    assert by_name.get("apply_patch", "custom_tool_call") == "custom_tool_call"
    assert by_name.get("note", "custom_tool_call") == "custom_tool_call"


@given(answers(list(PUBLIC)))
def test_what_the_model_said_is_what_the_client_gets(answer):
    turn = make()
    run(turn, answer)
    assert len(turn.output) == len(answer.items)
    for said, given_item in zip(answer.items, turn.output, strict=True):
        is_cut = said is answer.items[-1] and answer.is_cut
        SAID[said.kind](said, given_item, is_cut)
    ids = [item["call_id"] for item in turn.output if "call_id" in item]
    assert len(set(ids)) == len(ids)
    assert all(0 < len(call_id) <= 64 for call_id in ids)


def said_message(said, item, is_cut):
    texts = [part.get("text", part.get("refusal")) for part in said.done["content"]]
    assert [part.get("text", part.get("refusal")) for part in item["content"]] == texts
    assert item["status"] == ("incomplete" if is_cut else "completed")


def said_reasoning(said, item, is_cut):
    assert item["summary"] == said.done["summary"]
    assert item.get("content", []) == said.done["content"]


def said_call(said, item, is_cut):
    kind, namespace, name = PUBLIC[said.done["name"]]
    arguments = said.done["arguments"]
    if is_malformed_search(said) and not is_cut:
        kind, name = "function_call", "tool_search"
    assert item["type"] == kind
    assert (item.get("namespace"), item.get("name")) == (namespace, name)
    assert item["status"] == ("incomplete" if is_cut else "completed")
    if kind == "function_call":
        assert item["arguments"] == arguments
    elif kind == "tool_search_call":
        assert item["arguments"] == ({} if is_cut else parse_arguments(arguments))
    elif is_cut:
        assert read_input(arguments).startswith(item["input"])
    else:
        assert item["input"] == read_input(arguments)


SAID = {"message": said_message, "reasoning": said_reasoning, "call": said_call}


@given(answers(list(PUBLIC)), st.data())
def test_calls_that_were_cut_are_never_done_and_never_continued_from(answer, data):
    turn = make()
    public = run(turn, answer)
    done = [e["item"] for e in public if e["type"] == "response.output_item.done"]
    assert turn.given_output == done
    assert turn.next_history().items == (USER, *done)
    is_cut_call = answer.is_cut and answer.items[-1].kind == "call"
    assert len(done) == len(answer.items) - is_cut_call


@given(answers(list(PUBLIC)), st.integers(0, 30))
def test_an_answer_may_break_off_anywhere(answer, kept):
    turn = make()
    turn.send()
    for event in answer.events()[:kept]:
        turn.receive(event)
    turn.receive_eof()
    public = turn.events_to_send()
    check(public, answer, is_broken=True)
    assert turn.is_done
    terminal = public[-1]["type"]
    assert terminal != "response.completed" or kept >= len(answer.events())


@given(answers(list(PUBLIC)), st.integers(0, 30))
def test_an_error_may_come_anywhere(answer, kept):
    turn = make()
    turn.send()
    turn.start()
    for event in answer.events()[:kept]:
        turn.receive(event)
    turn.fail(UpstreamError("gone", code="server_error"))
    check(turn.events_to_send(), answer, is_broken=True)


@given(answers(list(PUBLIC)))
def test_inputs_are_never_changed(answer):
    request, history = deepcopy(REQUEST), History(items=(deepcopy(USER),))
    turn = make(request, history)
    run(turn, answer)
    assert request == REQUEST
    assert history == History(items=(USER,))


@given(answers(list(PUBLIC)))
def test_a_turn_can_always_be_continued_when_its_calls_are_answered(answer):
    first = make()
    run(first, answer)
    history = first.next_history()
    kinds = {
        "function_call": {"type": "function_call_output", "output": "ok"},
        "custom_tool_call": {"type": "custom_tool_call_output", "output": "ok"},
        "tool_search_call": {
            "type": "tool_search_output",
            "execution": "client",
            "status": "completed",
            "tools": [],
        },
    }
    outputs = [
        {**kinds[item["type"]], "call_id": item["call_id"]}
        for item in first.given_output
        if item["type"] in kinds
    ]
    request = {**REQUEST, "input": outputs, "previous_response_id": "resp_1"}
    lowered = make(request, history).request_to_send()
    calls = [item["call_id"] for item in lowered["input"] if item["type"] == "function_call"]
    answered = [
        item["call_id"] for item in lowered["input"] if item["type"] == "function_call_output"
    ]
    assert sorted(calls) == sorted(answered)
    assert {tool["type"] for tool in lowered["tools"]} == {"function"}
    resent = {**REQUEST, "input": [*history.items, *outputs]}
    assert make(resent).request_to_send() == lowered


def test_a_chat_like_answer_event_by_event():
    text = message(["Hel", "lo"], [], "completed")
    patch = call("apply_patch", "call_9", ['{"inp', 'ut": "a\\', 'nb"}'], "completed")
    answer = Answer([reasoning([], ["think"], "completed"), text, patch], completed())
    public = run(make(), answer)
    assert types(public) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in public] == list(range(len(public)))
    assert public[-1]["response"]["usage"] == USAGE
    assert public[-2]["item"]["call_id"] == "call_9"


# -- call ids


def test_a_call_id_of_the_history_is_not_used_again():
    first = make()
    run(first, Answer([call("shell", "call_0", ["{}"], "completed")], completed()))
    output = {"type": "function_call_output", "call_id": "call_0", "output": "ok"}
    second = make({**REQUEST, "input": [output]}, first.next_history())
    run(second, Answer([call("shell", "call_0", ["{}"], "completed")], completed()))
    assert second.output[0]["call_id"] != "call_0"


# -- unknown things


HOSTED = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
HOSTED |= {"action": {"type": "search", "query": "x"}}
FUTURE = {"type": "hologram", "id": "holo_1", "depth": {"z": [1, None]}}


def test_foreign_items_and_events_are_passed_without_loss():
    searching = {
        "type": "response.web_search_call.searching",
        "item_id": "ws_1",
        "output_index": 0,
        "sequence_number": 77,
    }
    answer = Answer([foreign(HOSTED, [searching]), foreign(FUTURE, [])], completed())
    turn = make()
    turn.send()
    turn.receive({"type": "response.weather_report", "rain": 3})
    public = turn.events_to_send()
    assert public[-1] == {"type": "response.weather_report", "rain": 3, "sequence_number": 2}
    for event in answer.events():
        turn.receive(event)
    public += turn.events_to_send()
    assert public[4] == {**searching, "sequence_number": 4}
    assert turn.output == [HOSTED, FUTURE]
    assert turn.next_history().items == (USER, HOSTED, FUTURE)


def test_a_delta_inside_a_foreign_item_is_passed():
    inner = {"type": "response.output_text.delta", "item_id": "up", "delta": "x"}
    public = run(make(), Answer([foreign(FUTURE, [inner])], completed()))
    assert public[3] == {**inner, "item_id": "holo_1", "output_index": 0, "sequence_number": 3}


@pytest.mark.parametrize("fields", [{}, {"item_id": "up"}])
def test_an_unknown_event_inside_a_known_item_gets_our_ids(fields):
    event = {"type": "response.output_text.mood", "output_index": 5, "mood": "good", **fields}
    turn = make()
    turn.send()
    turn.receive({"type": "response.output_item.added", "output_index": 0, "item": MESSAGE.added})
    (*_, added) = turn.events_to_send()
    turn.receive(event)
    ours = {"item_id": added["item"]["id"]} if fields else {}
    assert turn.events_to_send() == [{**event, "output_index": 0, "sequence_number": 3, **ours}]


MESSAGE = message(["x"], [], "completed")


def test_an_unknown_event_inside_a_held_call_has_no_place():
    search = call("tool_search", "c", ["{}"], "completed")
    search.deltas.append({"type": "response.mood", "mood": "good"})
    turn = make()
    public = run(turn, Answer([search], completed()))
    assert "mood" not in types(public)
    assert turn.notes == ["response.mood inside a held call: left out"]
    check_stream(public, request=REQUEST)


# -- states


def test_nothing_is_said_before_the_answer_begins():
    turn = make()
    assert turn.state is TurnState.NEW
    turn.send()
    assert (turn.state, turn.is_started, turn.events_to_send()) == (TurnState.SENT, False, [])
    turn.start()
    turn.start()
    assert types(turn.events_to_send()) == ["created", "in_progress"]
    assert (turn.state, turn.is_started) == (TurnState.STREAMING, True)


def test_a_heartbeat_repeats_in_progress_with_the_next_number():
    turn = make()
    turn.send()
    turn.heartbeat()
    turn.heartbeat()
    events = turn.events_to_send()
    assert types(events) == ["created", "in_progress", "in_progress", "in_progress"]
    turn.receive(completed())
    turn.events_to_send()
    turn.heartbeat()
    assert turn.events_to_send() == []


def test_a_warm_up_is_complete_at_once():
    request = {**REQUEST, "generate": False}
    turn = make(request)
    turn.warm_up()
    public = turn.events_to_send()
    assert types(public) == ["created", "in_progress", "completed"]
    check_stream(public, request=request)
    assert turn.response["usage"] == ZERO_USAGE
    assert turn.next_history().items == (USER,)


def test_an_event_before_sending_is_our_own_fault():
    with pytest.raises(InternalError):
        make().receive(completed())


def test_an_end_without_a_beginning_is_our_own_fault():
    turn = make()
    turn.send()
    with pytest.raises(InternalError, match="never added"):
        turn.receive({"type": "response.output_item.done", "output_index": 0, "item": MESSAGE.done})


@pytest.mark.parametrize(
    ("terminal", "state"),
    [
        (completed(), TurnState.COMPLETED),
        (incomplete(), TurnState.INCOMPLETE),
        (failed(), TurnState.FAILED),
        (None, TurnState.FAILED),
    ],
)
def test_the_ends_swallow_what_comes_late(terminal, state):
    turn = make()
    run(turn, Answer([MESSAGE], terminal))
    response = turn.response
    turn.receive(completed())
    turn.receive_eof()
    turn.fail(UpstreamError("late"))
    turn.cancel()
    turn.start()
    assert turn.events_to_send() == []
    assert (turn.state, turn.response) == (state, response)


def test_a_cut_answer_says_why():
    turn = make()
    run(turn, Answer([message(["half"], [], "incomplete")], incomplete("content_filter"), True))
    assert turn.response["incomplete_details"] == {"reason": "content_filter"}
    assert turn.response["output"][0]["status"] == "incomplete"


def test_an_error_of_the_answer_is_kept():
    turn = make()
    run(turn, Answer([], failed("context_length_exceeded", "Too long.")))
    assert turn.response["error"] == {
        "code": "context_length_exceeded",
        "message": "Too long.",
    }
    assert turn.error.code == "context_length_exceeded"
    assert turn.response["usage"] == ZERO_USAGE


def test_the_end_of_the_bytes_alone_is_a_failure():
    turn = make()
    turn.send()
    turn.receive_eof()
    public = turn.events_to_send()
    assert types(public) == ["created", "in_progress", "failed"]
    check_stream(public, request=REQUEST)
    assert turn.error.status == 502


@pytest.mark.parametrize("is_sent", [False, True])
def test_an_early_error_is_the_callers_to_say(is_sent):
    turn = make()
    if is_sent:
        turn.send()
    error = UpstreamError("refused", status=429, code="rate_limit_exceeded")
    turn.fail(error)
    assert turn.events_to_send() == []
    assert (turn.state, turn.error) == (TurnState.FAILED, error)
    assert not turn.is_started
    assert turn.response["status"] == "failed"


@pytest.mark.parametrize("steps", range(5))
def test_a_cancelled_turn_says_nothing_more(steps):
    turn = make()
    turn.send()
    for event in Answer([MESSAGE], completed()).events()[:steps]:
        turn.receive(event)
    said = types(turn.events_to_send())
    turn.cancel()
    assert turn.events_to_send() == []
    if "completed" not in said:
        assert turn.state is TurnState.CANCELLED
        assert turn.response["status"] == "cancelled"
    assert len(turn.next_history().items) == 1 + said.count("output_item.done")


def test_a_response_that_could_not_be_stored_says_so():
    turn = make({**REQUEST, "store": True})
    turn.send()
    turn.receive(completed())
    turn.not_stored()
    *_, last = turn.events_to_send()
    assert last["type"] == "response.completed"
    assert last["response"]["store"] is False
    assert last["response"] == turn.response


def test_a_request_that_cannot_be_lowered_makes_no_turn():
    orphan = {"type": "function_call_output", "call_id": "x", "output": "ok"}
    with pytest.raises(RequestError):
        make({**REQUEST, "input": [orphan]})


def test_the_model_may_have_another_name_upstream():
    turn = make(options=TurnOptions(model="local"))
    assert turn.request_to_send()["model"] == "local"
    assert turn.response["model"] == "m"
    assert make().request_to_send()["model"] == "m"
    assert turn.new_items == [USER]


# -- compaction


SEALER = Sealer(seal=json.dumps, unseal=json.loads)


def test_a_compaction_gives_one_sealed_item_and_continues_from_it():
    request = {**REQUEST, "input": [USER, {"type": "compaction_trigger"}]}
    turn = make(request, options=TurnOptions(sealer=SEALER))
    answer = Answer([reasoning([], ["hm"], "completed"), message(["Sum", "mary"], [], "completed")])
    answer.terminal = completed()
    public = run(turn, answer)
    assert types(public) == [
        "created",
        "in_progress",
        "output_item.added",
        "compaction.compacting",
        "output_item.done",
        "completed",
    ]
    check_stream(public, request=request)
    (item,) = turn.output
    assert item["type"] == "compaction"
    assert json.loads(item["encrypted_content"])["summary"] == "Summary"
    history = turn.next_history()
    assert history.items == (item,)
    following = make(REQUEST, history, TurnOptions(sealer=SEALER)).request_to_send()
    assert following["input"][0]["content"][0]["text"].endswith("Summary")
