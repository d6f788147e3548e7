"""The state tables of a response and of its items. Two rules:

1. Every transition stands in this file; a pair that is missing here cannot happen and is a bug that raises.
2. This file knows no transport, no upstream dialect and no tool.

Theory of operation. A turn is NEW until its lowered request goes out (SENT). Nothing public is said while SENT: an
upstream that refuses can still become an HTTP status. The first event of the answer, or a silence that lasts too long,
starts the public stream (STREAMING) with `response.created`. From there exactly one of four ends is reached, and the
ends swallow whatever comes late. A warm-up (`generate: false`) is complete without ever being sent.

Items live inside STREAMING, one at a time: the dialect's reader guarantees that an item is done before the next one is
added. An item that the answer's end finds open is ABANDONED: a call gets no `output_item.done` then, since clients run
a call at that event (codex-cli 0.171); text and reasoning are closed as `incomplete`.

The diagram in docs/architecture.md is made from these tables.
"""

from enum import Enum
from typing import Final

from gateway.errors import InternalError


class TurnState(Enum):
    """Where a response stands."""

    NEW = "new"
    SENT = "sent"
    STREAMING = "streaming"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Trigger(Enum):
    """What can happen to a turn."""

    SEND = "send"
    WARM_UP = "warm_up"
    START = "start"
    EVENT = "event"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    FAIL = "fail"
    EOF = "eof"
    CANCEL = "cancel"


class ItemState(Enum):
    """Where an output item stands."""

    ABSENT = "absent"
    OPEN = "open"
    DONE = "done"
    ABANDONED = "abandoned"


class ItemTrigger(Enum):
    """What can happen to an item."""

    ADDED = "added"
    DELTA = "delta"
    DONE = "done"
    CUT = "cut"


_LATE: Final = (
    Trigger.EVENT,
    Trigger.COMPLETE,
    Trigger.INCOMPLETE,
    Trigger.FAIL,
    Trigger.EOF,
    Trigger.CANCEL,
)

ENDS: Final = (
    TurnState.COMPLETED,
    TurnState.INCOMPLETE,
    TurnState.FAILED,
    TurnState.CANCELLED,
)

TURN_TRANSITIONS: Final[dict[TurnState, dict[Trigger, TurnState]]] = {
    TurnState.NEW: {
        Trigger.SEND: TurnState.SENT,
        Trigger.WARM_UP: TurnState.COMPLETED,
        Trigger.FAIL: TurnState.FAILED,
        Trigger.CANCEL: TurnState.CANCELLED,
    },
    TurnState.SENT: {
        Trigger.START: TurnState.STREAMING,
        Trigger.FAIL: TurnState.FAILED,
        Trigger.CANCEL: TurnState.CANCELLED,
    },
    TurnState.STREAMING: {
        Trigger.EVENT: TurnState.STREAMING,
        Trigger.COMPLETE: TurnState.COMPLETED,
        Trigger.INCOMPLETE: TurnState.INCOMPLETE,
        Trigger.FAIL: TurnState.FAILED,
        Trigger.EOF: TurnState.FAILED,
        Trigger.CANCEL: TurnState.CANCELLED,
    },
    **{end: dict.fromkeys(_LATE, end) for end in ENDS},
}

ITEM_TRANSITIONS: Final[dict[ItemState, dict[ItemTrigger, ItemState]]] = {
    ItemState.ABSENT: {ItemTrigger.ADDED: ItemState.OPEN},
    ItemState.OPEN: {
        ItemTrigger.DELTA: ItemState.OPEN,
        ItemTrigger.DONE: ItemState.DONE,
        ItemTrigger.CUT: ItemState.ABANDONED,
    },
    ItemState.DONE: {},
    ItemState.ABANDONED: {},
}


def next_turn_state(state: TurnState, trigger: Trigger) -> TurnState:
    """The state after `trigger`.

    Raises:
        InternalError: the table has no such row.
    """
    try:
        return TURN_TRANSITIONS[state][trigger]
    except KeyError:
        raise InternalError(f"turn: no transition {trigger.value} in {state.value}") from None


def next_item_state(state: ItemState, trigger: ItemTrigger) -> ItemState:
    """The state after `trigger`.

    Raises:
        InternalError: the table has no such row.
    """
    try:
        return ITEM_TRANSITIONS[state][trigger]
    except KeyError:
        raise InternalError(f"item: no transition {trigger.value} in {state.value}") from None
