"""Which item in flight an upstream item becomes, and the call_id that a client knows a call by."""

import itertools

import pytest

from gateway.tools.options import ToolOptions
from gateway.turn import items as flight
from gateway.turn.opening import MAX_CALL_ID_CHARS, Opener
from gateway.turn.thread import Thread

TOOLS = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
LONGEST = "x" * MAX_CALL_ID_CHARS


def opener():
    numbers = itertools.count()
    return Opener(lambda prefix: f"{prefix}_{next(numbers)}")


def thread(*items):
    return Thread(TOOLS, list(items), ToolOptions())


def call_id(opened):
    return opened.open()[0]["item"]["call_id"]


def upstream_call(call_id):
    return {"type": "function_call", "name": "shell", "call_id": call_id}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("message", flight.Message),
        ("reasoning", flight.Reasoning),
        ("function_call", flight.Call),
        ("compaction", flight.Compaction),
        ("web_search_call", flight.Foreign),
    ],
)
def test_each_type_has_its_item(kind, expected):
    item = {**upstream_call("c"), "type": kind}
    opened = opener().open(item, 3, thread())
    assert type(opened) is expected
    assert opened.open()[0]["output_index"] == 3


def test_call_ids_are_kept_where_they_can_be():
    opens, before = opener(), thread()
    given = ("call_a", "call_a", "", LONGEST + "x", LONGEST, None)
    ids = [call_id(opens.open(upstream_call(it), at, before)) for at, it in enumerate(given)]
    assert ids[0] == "call_a"
    assert ids[4] == LONGEST
    assert all(ids[n].startswith("call_") and ids[n] != "call_a" for n in (1, 2, 3, 5))
    assert len(set(ids)) == 6


def test_a_call_id_of_the_conversation_is_taken():
    said = {"type": "function_call", "call_id": "call_a", "name": "shell", "arguments": "{}"}
    assert call_id(opener().open(upstream_call("call_a"), 0, thread(said))) != "call_a"
