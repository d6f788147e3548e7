"""A conversation that was lowered turn by turn is the one that is lowered at once."""

from collections.abc import Callable
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.tools.options import ToolOptions
from gateway.turn.history import History
from gateway.turn.request import Lowering, prepare
from gateway.turn.thread import Grown, Thread
from gateway.upstream.dialect import make_dialect
from gateway.upstream.profiles import load_profile
from tests.turn.test_any_request import ITEM, OPTIONS, TOOLS
from tests.turn.test_cutting import histories

USER = {"type": "message", "role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
HOW = Lowering(ToolOptions(), "m")


def lowered(request, history, how):
    """(lowered request, notes), or the words of the refusal; and the thread to go on with."""
    try:
        prepared = prepare(request, history, how)
    except RequestError as error:
        return str(error), None
    return (prepared.lowered, prepared.thread.notes), Grown(prepared.thread)


def steps(history, more, thread):
    """The history with the thread of its beginning."""
    return History(items=(*history.items, *more), grown=thread)


@given(
    st.lists(st.lists(ITEM, max_size=3), max_size=6),
    st.lists(st.lists(TOOLS, max_size=2), min_size=2, max_size=2),
    st.lists(st.integers(0, 5), max_size=2),
    OPTIONS,
)
def test_turn_by_turn_is_the_same_as_at_once(turns, two_lists, changes, options):
    how = Lowering(options, "m")
    grown = History()
    for number, items in enumerate(turns):
        tools = two_lists[sum(number >= change for change in changes) % 2]
        request = {"model": "m", "input": items, "tools": tools}
        at_once, _ = lowered(request, History(items=grown.items), how)
        by_turns, thread = lowered(request, grown, how)
        assert by_turns == at_once
        if thread is None:
            return
        grown = steps(grown, items, thread)


@given(histories(), st.lists(st.integers(0, 30), max_size=6))
def test_whole_conversations_grow_as_they_are_lowered_at_once(items, cuts):
    """Without refusals: every output has its call, wherever the turns begin."""
    grown = History()
    places = [0, *sorted(cuts), len(items)]
    for start, end in pairwise(places):
        request = {"model": "m", "input": items[start:end]}
        at_once = prepare(request, History(items=grown.items), HOW)
        by_turns = prepare(request, grown, HOW)
        assert by_turns.lowered == at_once.lowered
        assert by_turns.thread.unanswered() == at_once.thread.unanswered()
        assert by_turns.thread.call_ids == at_once.thread.call_ids
        grown = steps(grown, items[start:end], Grown(by_turns.thread))


def test_a_thread_is_taken_once():
    thread = Thread([], [USER], ToolOptions())
    grown = Grown(thread)
    assert grown.take() is thread
    assert grown.take() is None


def test_two_turns_from_one_history_do_not_meet():
    """A fork: the second one finds the thread taken, and lowers anew."""
    history = steps(History(), [USER], Grown(Thread([], [USER], ToolOptions())))
    ask = {"model": "m", "input": [CALL, OUTPUT]}
    first = prepare(ask, history, HOW).lowered["input"]
    second = prepare({"model": "m", "input": [USER]}, history, HOW).lowered["input"]
    assert [item["type"] for item in first] == ["message", "function_call", "function_call_output"]
    assert second == [USER, USER]


def test_a_turn_lowers_only_what_is_new():
    thread = Thread([], [USER], ToolOptions())
    before = thread.lowered()[0]
    assert thread.grow([], [CALL, OUTPUT], ToolOptions())
    assert thread.lowered()[0] is before
    assert thread.count == 3
    assert thread.call_ids == {"c"}


def test_an_output_for_a_call_that_was_given_up_is_a_new_thread():
    thread = Thread([], [USER, CALL, USER], ToolOptions())
    assert thread.lowered()[2]["output"] == "aborted"
    assert not thread.grow([], [OUTPUT], ToolOptions())


def test_what_changes_the_table_is_a_new_thread():
    tools = [{"type": "function", "name": "f", "parameters": {}}]
    for item in ({"type": "additional_tools", "tools": []}, {"type": "compaction"}):
        assert not Thread(tools, [USER], ToolOptions()).grow(tools, [item], ToolOptions())
    assert not Thread(tools, [USER], ToolOptions()).grow([], [], ToolOptions())
    assert not Thread(tools, [USER], ToolOptions()).grow(tools, [], ToolOptions(hosted="pass"))
    assert Thread(tools, [USER], ToolOptions()).grow(list(tools), [USER], ToolOptions())


def test_call_ids_are_those_of_every_item():
    hosted = {"type": "tool_search_call", "call_id": None}
    unknown = {"type": "hologram", "call_id": ["c4"]}
    other = {**CALL, "call_id": "c2"}
    thread = Thread([], [USER, CALL, OUTPUT, other, hosted, unknown], ToolOptions())
    assert thread.call_ids == {"c", "c2"}


def _call(call_id):
    return {**CALL, "call_id": call_id}


def _output(call_id):
    return {**OUTPUT, "call_id": call_id}


def _search(call_id, name):
    both = {"call_id": call_id, "execution": "client"}
    return [
        {"type": "tool_search_call", "arguments": {}, **both},
        {
            "type": "tool_search_output",
            "tools": [{"type": "function", "name": name, "defer_loading": True}],
            **both,
        },
    ]


LONG: dict[str, Callable[[int], list]] = {
    "one id for all calls": lambda n: [_call("c")] * n,
    "one id for all pairs": lambda n: [CALL, OUTPUT] * n,
    "calls without outputs": lambda n: [_call(f"c{i}") for i in range(n)],
    "outputs in order": lambda n: [
        *(_call(f"c{i}") for i in range(n)),
        *(_output(f"c{i}") for i in range(n)),
    ],
    "outputs from behind": lambda n: [
        *(_call(f"c{i}") for i in range(n)),
        *(_output(f"c{i}") for i in reversed(range(n))),
    ],
    "searches": lambda n: [item for i in range(n) for item in _search(f"s{i}", f"f{i}")],
    "one search many times": lambda n: [item for _ in range(n) for item in _search("s", "f")],
}


@pytest.mark.parametrize("shape", LONG)
def test_the_cost_of_a_history_grows_with_its_length_and_no_faster(shape):
    """A megabyte of calls in an odd order must not hold the other connections up for a minute."""
    items = [USER, *LONG[shape](8000)]
    tools = [{"type": "tool_search", "execution": "client"}]
    began = process_time()
    thread = Thread(tools, items, ToolOptions())
    request = {"model": "m", "stream": True, "input": thread.lowered()}
    for dialect in ("chat", "responses"):
        make_dialect(load_profile("default", {"dialect": dialect})).encode(request)
    # It takes 0.2 s; what looks at every call for each call takes 5 s and more.
    assert process_time() - began < 2
