"""What an event and a turn may cost, in counted work: calls of functions do not depend on the machine.

A budget is the count of the day plus about a fifth. Whoever exceeds one has put work into the way of every event: take
it out again, or measure what it costs (`make bench`), say so in docs/performance.md, and raise the number here.
"""

import itertools
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest

from gateway.server.delivery import Delivery
from gateway.server.relay import _read
from gateway.turn.history import History
from gateway.turn.turn import Turn, TurnOptions
from gateway.upstream.dialect import make_dialect
from gateway.upstream.profiles import Profile
from gateway.wire.json import dumps
from gateway.wire.sse import encode_event

JSON = dict[str, Any]

EVENTS = 400
# An event may keep its text twice (the turn's and the reader's) and a little around it.
MAX_HELD_BYTES = 400
# Calls for one event of the answer, of Python functions and of all.
READING = {"chat text": (22, 64), "chat arguments": (27, 76), "responses text": (24, 60)}
# …and what the loop, the delivery and the sink add to that.
MAX_DELIVERY_CALLS = (10, 14)
# A continued turn lowers nothing anew: an item that came before it costs only the writing of its message.
MAX_CALLS_AN_ITEM = 16
SHORT, LONG = 2, 200


def data(event: JSON) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def chat(delta: JSON) -> bytes:
    return data({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def fragment(text: str, **more: str) -> JSON:
    call: JSON = {"index": 0, "function": {"arguments": text, **more}}
    return {"tool_calls": [{**call, "id": "call_1"} if more else call]}


def responses(event: JSON) -> bytes:
    return data({"item_id": "msg_1", "output_index": 0, "content_index": 0, **event})


ANSWERS: dict[str, tuple[str, list[bytes]]] = {
    "chat text": ("chat", [chat({"content": f"word {n} "}) for n in range(EVENTS)]),
    "chat arguments": (
        "chat",
        [
            chat(fragment('{"a":"', name="f")),
            *(chat(fragment(f"word {n} ")) for n in range(EVENTS)),
        ],
    ),
    "responses text": (
        "responses",
        [
            responses({"type": "response.output_text.delta", "delta": f"word {n} "})
            for n in range(EVENTS)
        ],
    ),
}


class Calls:
    """Counts the calls inside the context: `python` of them are of Python functions."""

    def __init__(self) -> None:
        self.python = 0
        self.all = 0

    def _count(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            self.python += 1
            self.all += 1
        elif event == "c_call":
            self.all += 1

    def __enter__(self) -> "Calls":
        self._before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)


def new_turn(history: History | None = None, given: object = "x") -> Turn:
    numbers = itertools.count()
    request = {"model": "m", "input": given}
    turn = Turn(
        request, history or History(), TurnOptions(), lambda p: f"{p}_{next(numbers)}", lambda: 1
    )
    turn.send()
    return turn


def feeding(dialect: str) -> Callable[[Iterable[bytes]], int]:
    """Takes chunks all the way to encoded public events; returns how many bytes these have."""
    reader = make_dialect(Profile(dialect=dialect)).reader("text/event-stream")
    turn = new_turn()
    turn.start()

    def feed(chunks: Iterable[bytes]) -> int:
        size = 0
        for chunk in chunks:
            for event in reader.feed(chunk):
                turn.receive(event)
            size += len(b"".join(map(encode_event, turn.events_to_send())))
        return size

    return feed


@pytest.mark.parametrize("name", ANSWERS)
def test_an_event_costs_no_more_than_its_budget(name: str) -> None:
    dialect, chunks = ANSWERS[name]
    feed = feeding(dialect)
    feed(chunks[:10])
    with Calls() as calls:
        size = feed(chunks[10:110])
    assert size > 100 * 100
    most_python, most = READING[name]
    assert calls.python / 100 <= most_python
    assert calls.all / 100 <= most


@pytest.mark.parametrize("name", ANSWERS)
def test_the_last_event_costs_what_the_first_did(name: str) -> None:
    dialect, chunks = ANSWERS[name]
    feed = feeding(dialect)
    feed(chunks[:10])
    with Calls() as early:
        feed(chunks[10:60])
    feed(chunks[60:-50])
    with Calls() as late:
        feed(chunks[-50:])
    assert late.all <= early.all


@pytest.mark.parametrize("name", ANSWERS)
def test_an_event_leaves_little_behind(name: str) -> None:
    dialect, chunks = ANSWERS[name]
    feed = feeding(dialect)
    feed(chunks[:10])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        feed(chunks[10:])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / (len(chunks) - 10) <= MAX_HELD_BYTES


class Chunks:
    """An answer whose pieces are all there."""

    content_type = "text/event-stream"

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = iter(chunks)

    async def chunk(self) -> bytes:
        return next(self._chunks, b"")

    def end(self) -> None: ...


class Encoding:
    """A sink that encodes, as the real ones do."""

    is_live = True

    def __init__(self) -> None:
        self.sends = 0
        self.bytes = 0

    async def send(self, events: list[JSON]) -> None:
        self.sends += 1
        self.bytes += len(b"".join(map(encode_event, events)))

    def abort(self) -> None: ...


class Target:
    dialect = make_dialect(Profile())


async def relayed(chunks: list[bytes]) -> tuple[Calls, Encoding]:
    """The calls of the relay's loop over these chunks, and its sink."""
    sink = Encoding()
    turn = new_turn()
    turn.start()
    delivery = Delivery(turn, sink, heartbeat_seconds=60.0)
    answer: Any = Chunks(chunks)
    target: Any = Target()
    try:
        with Calls() as calls:
            await _read(answer, turn, target, delivery)
    finally:
        delivery.stop()
    return calls, sink


async def test_the_loop_adds_no_more_than_its_budget() -> None:
    _, chunks = ANSWERS["chat text"]
    few, _ = await relayed(chunks[:100])
    many, sink = await relayed(chunks[:300])
    python, every = READING["chat text"]
    assert sink.sends == 300
    assert (many.python - few.python) / 200 <= python + MAX_DELIVERY_CALLS[0]
    assert (many.all - few.all) / 200 <= every + MAX_DELIVERY_CALLS[1]


async def test_the_events_of_one_chunk_are_one_send() -> None:
    _, chunks = ANSWERS["chat text"]
    single, _ = await relayed(chunks)
    burst, sink = await relayed([b"".join(chunks)])
    assert sink.sends == 1
    assert burst.all < 0.7 * single.all


def continued(items: int) -> int:
    """Calls for a turn that continues a conversation of so many messages, down to the bytes for the model server."""
    texts = [
        {"type": "message", "role": "assistant" if n % 2 else "user", "content": f"text {n}"}
        for n in range(items)
    ]
    dialect = make_dialect(Profile())
    first = new_turn(given=texts)
    dialect.encode(first.request_to_send())
    first.start()
    first.receive({"type": "response.completed", "response": {"usage": None}})
    history = first.next_history()
    more = [{"type": "message", "role": "user", "content": "go on"}]
    with Calls() as calls:
        body = dialect.encode(new_turn(history, more).request_to_send())
    assert body.count(b'"role"') == items + 1
    return calls.all


def test_an_item_of_a_continued_history_costs_only_its_message() -> None:
    continued(SHORT)  # what is compiled and cached once
    grown = continued(LONG) - continued(SHORT)
    assert grown / (LONG - SHORT) <= MAX_CALLS_AN_ITEM


def test_a_public_event_is_encoded_in_one_call_of_the_codec() -> None:
    event = {"type": "response.output_text.delta", "delta": "x", "sequence_number": 1}
    encode_event(event)
    with Calls() as calls:
        assert dumps(event) in encode_event(event)
    assert calls.all <= 12
