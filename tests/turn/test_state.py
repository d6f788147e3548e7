"""The state tables: every row is a case, every missing pair raises."""

import pytest

from gateway.errors import InternalError
from gateway.turn.state import (
    ENDS,
    ITEM_TRANSITIONS,
    TURN_TRANSITIONS,
    ItemState,
    ItemTrigger,
    Trigger,
    TurnState,
    next_item_state,
    next_turn_state,
)

N, S, R = TurnState.NEW, TurnState.SENT, TurnState.STREAMING
C, PART, F, X = TurnState.COMPLETED, TurnState.INCOMPLETE, TurnState.FAILED, TurnState.CANCELLED

# Written out a second time on purpose: a changed row must be changed here as well.
TURN_ROWS = {
    (N, Trigger.SEND): S,
    (N, Trigger.WARM_UP): C,
    (N, Trigger.FAIL): F,
    (N, Trigger.CANCEL): X,
    (S, Trigger.START): R,
    (S, Trigger.FAIL): F,
    (S, Trigger.CANCEL): X,
    (R, Trigger.EVENT): R,
    (R, Trigger.COMPLETE): C,
    (R, Trigger.INCOMPLETE): PART,
    (R, Trigger.FAIL): F,
    (R, Trigger.EOF): F,
    (R, Trigger.CANCEL): X,
    **{
        (end, trigger): end
        for end in (C, PART, F, X)
        for trigger in Trigger
        if trigger not in (Trigger.SEND, Trigger.WARM_UP, Trigger.START)
    },
}
ITEM_ROWS = {
    (ItemState.ABSENT, ItemTrigger.ADDED): ItemState.OPEN,
    (ItemState.OPEN, ItemTrigger.DELTA): ItemState.OPEN,
    (ItemState.OPEN, ItemTrigger.DONE): ItemState.DONE,
    (ItemState.OPEN, ItemTrigger.CUT): ItemState.ABANDONED,
}


def pairs(states, triggers):
    return [(state, trigger) for state in states for trigger in triggers]


def test_the_tables_have_exactly_these_rows():
    turn = {(s, t): after for s, row in TURN_TRANSITIONS.items() for t, after in row.items()}
    item = {(s, t): after for s, row in ITEM_TRANSITIONS.items() for t, after in row.items()}
    assert turn == TURN_ROWS
    assert item == ITEM_ROWS
    assert set(TURN_TRANSITIONS) == set(TurnState)
    assert set(ITEM_TRANSITIONS) == set(ItemState)
    assert set(ENDS) == {C, PART, F, X}


@pytest.mark.parametrize(("pair", "after"), TURN_ROWS.items())
def test_a_row_of_the_turn(pair, after):
    assert next_turn_state(*pair) is after


@pytest.mark.parametrize("pair", [p for p in pairs(TurnState, Trigger) if p not in TURN_ROWS])
def test_a_missing_pair_of_the_turn_raises(pair):
    with pytest.raises(InternalError, match=f"no transition {pair[1].value} in {pair[0].value}"):
        next_turn_state(*pair)


@pytest.mark.parametrize(("pair", "after"), ITEM_ROWS.items())
def test_a_row_of_an_item(pair, after):
    assert next_item_state(*pair) is after


@pytest.mark.parametrize("pair", [p for p in pairs(ItemState, ItemTrigger) if p not in ITEM_ROWS])
def test_a_missing_pair_of_an_item_raises(pair):
    with pytest.raises(InternalError, match=f"no transition {pair[1].value} in {pair[0].value}"):
        next_item_state(*pair)
