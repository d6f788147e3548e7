"""Histories: what `previous_response_id` stands for."""

from copy import deepcopy

import pytest

from gateway.errors import RequestError
from gateway.turn.history import History

USER = {"type": "message", "role": "user", "content": "hi"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
CUSTOM = {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "x"}
SEARCH = {"type": "tool_search_call", "call_id": "c3", "execution": "client", "arguments": {}}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
ANSWER = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}


def test_a_turn_makes_a_longer_history_and_leaves_the_old_one():
    first = History().extended([USER], [CALL, CUSTOM, SEARCH])
    second = first.extended([OUTPUT], [ANSWER])
    assert first.items == (USER, CALL, CUSTOM, SEARCH)
    assert first.pending == {"c1", "c2"}
    assert second.items == (USER, CALL, CUSTOM, SEARCH, OUTPUT, ANSWER)
    assert second.pending == frozenset()
    assert History() == History(items=(), pending=frozenset())


def test_rows_rebuild_the_chain():
    rows = [([USER], [CALL]), ([OUTPUT], [ANSWER])]
    assert History.from_rows(rows) == History().extended(*rows[0]).extended(*rows[1])
    assert History.from_rows([]) == History()


def test_a_compaction_stands_for_all_before_it():
    history = History().extended([USER], [ANSWER]).extended([USER], [SEALED])
    assert history.items == (SEALED,)


@pytest.mark.parametrize(
    ("given", "items"),
    [
        (None, []),
        ("", []),
        ([], []),
        (
            "hello",
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "hello"}],
                }
            ],
        ),
        ([{"role": "user", "content": "hi"}], [USER]),
        ([USER, OUTPUT], [USER, OUTPUT]),
        ([{"type": "not invented yet", "x": 1}], [{"type": "not invented yet", "x": 1}]),
    ],
)
def test_the_input_of_a_request(given, items):
    request = {"input": given} if given is not None else {}
    before = deepcopy(request)
    assert History().new_items(request) == items
    assert request == before


def test_a_reference_is_the_item_that_it_names():
    history = History(items=(USER, CALL))
    assert history.new_items({"input": [{"type": "item_reference", "id": "fc_1"}]}) == [CALL]


def test_a_reference_to_nothing():
    request = {"input": [USER, {"type": "item_reference", "id": "fc_9"}]}
    with pytest.raises(RequestError) as refused:
        History(items=(CALL,)).new_items(request)
    assert refused.value.message == "Item with id 'fc_9' not found."
    assert (refused.value.status, refused.value.param) == (404, "input[1].id")
