"""What a continued turn costs as its chain grows, and what an idle one holds: `python -m bench.continuation`.

Over a socket, whose lane holds what it continues, and over HTTP by previous_response_id, where it is found by way of
the store: kept ready (`Parents`), or read anew, for comparison. Every turn has the same own items (two outputs, a
reason, a word, a namespaced call and a patch), so only the chain differs. CPU time of the process; the best of many
conversations, so that other load on the machine does not count.
Budget: the parts that are ours (finding, expanding, lowering) at 200 turns <= 1.5 times those at 2;
1 MB of history in <= 1.5 MB.
"""

import asyncio
import gc
import itertools
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

from gateway.config import StoreConfig
from gateway.server.parent import PackedParent, Parent, row_of
from gateway.server.parents import MAX_PARENTS, Parents
from gateway.server.relay import new_id
from gateway.store.choice import choose_store
from gateway.store.protocol import Store
from gateway.turn.request import TurnOptions
from gateway.turn.turn import Turn
from gateway.upstream.dialect import make_dialect
from gateway.upstream.profiles import load_profile
from gateway.wire.json import dumps, dumps_str, loads

JSON = dict[str, Any]

AT = (2, 50, 200)
CONVERSATIONS = 25
# Of those that read their chain anew.
SLOW_CONVERSATIONS = 4
MAX_RATIO = 1.5
HISTORY_BYTES = 1_000_000
MAX_HELD_BYTES = 1_500_000

PATCH = "*** Begin Patch\n*** Update File: a.py\n" + '+print("one line of a patch")\n' * 40
RESULT = "ok, one line of a test run\n" * 40


def tools() -> list[JSON]:
    """What Codex declares: about twenty functions, a namespace, a custom tool."""
    text = {"type": "string", "description": "A word."}
    parameters = {"type": "object", "properties": {f"p{n}": text for n in range(6)}}
    member = {"type": "function", "name": "get", "description": "Get.", "parameters": parameters}
    functions = [{**member, "name": f"tool_{n}", "description": "d" * 200} for n in range(20)]
    space = {"type": "namespace", "name": "mcp__files", "description": "", "tools": [member]}
    return [*functions, space, {"type": "custom", "name": "apply_patch", "description": "Patch."}]


def answer(number: int) -> list[JSON]:
    """The canonical events of one answer."""
    text = "One more. " * 8
    items: list[tuple[JSON, JSON, str, str]] = [
        (
            {"type": "reasoning"},
            {"summary": [], "content": [{"type": "reasoning_text", "text": text}]},
            "reasoning_text",
            text,
        ),
        (
            {"type": "message", "role": "assistant"},
            {"content": [{"type": "output_text", "text": text}]},
            "output_text",
            text,
        ),
    ]
    for name, arguments in (
        ("mcp__files__get", '{"p1": "word"}'),
        ("apply_patch", dumps_str({"input": PATCH})),
    ):
        call: JSON = {"type": "function_call", "call_id": f"{name}_{number}", "name": name}
        items.append((call, {"arguments": arguments}, "function_call_arguments", arguments))
    events: list[JSON] = []
    for index, (head, rest, kind, delta) in enumerate(items):
        at = {"output_index": index}
        done = {**head, **rest, "status": "completed"}
        events += [
            {"type": "response.output_item.added", **at, "item": head},
            {"type": f"response.{kind}.delta", **at, "delta": delta},
            {"type": "response.output_item.done", **at, "item": done},
        ]
    return [*events, {"type": "response.completed", "response": {"usage": None}}]


class Conversation:
    """Turns of one lane, each timed in its parts."""

    def __init__(self) -> None:
        self._ids = itertools.count()
        self._encode = make_dialect(load_profile("default", {})).encode
        self.parent = Parent()
        self.body = b""

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids)}"

    def request(self, number: int) -> bytes:
        """The frame of one turn."""
        first = {"type": "message", "role": "user", "content": "Do it."}
        calls = (
            ("function_call", f"mcp__files__get_{number - 1}"),
            (
                "custom_tool_call",
                f"apply_patch_{number - 1}",
            ),
        )
        outputs = [
            {"type": f"{kind}_output", "call_id": call_id, "output": RESULT}
            for kind, call_id in calls
        ]
        items = [first] if number == 1 else outputs
        return dumps({"model": "m", "tools": tools(), "input": items})

    def turn(self, number: int) -> tuple[float, float]:
        """Milliseconds of (finding, expanding, lowering) and of encoding."""
        request = self.read(number)
        began = time.process_time()
        turn, encoding = self.begin(request)
        prepared = time.process_time() - encoding
        self.play(turn, number)
        ending = time.process_time()
        self.parent = self.parent.next(turn, is_stored=False)
        ended = time.process_time()
        return (prepared - began + ended - ending) * 1000, encoding * 1000

    def read(self, number: int) -> JSON:
        """The request as a transport gives it."""
        request: JSON = loads(self.request(number))
        return request

    def begin(self, request: JSON) -> tuple[Turn, float]:
        """The turn with its body encoded, and the seconds that the encoding took."""
        turn = Turn(request, self.parent.history, TurnOptions(), self._new_id, lambda: 0)
        lowered = turn.request_to_send()
        prepared = time.process_time()
        self.body = self._encode(lowered)
        return turn, time.process_time() - prepared

    def play(self, turn: Turn, number: int) -> None:
        """Its answer."""
        turn.send()
        for event in answer(number):
            turn.receive(event)
        turn.events_to_send()


class StoredConversation(Conversation):
    """The same over HTTP: found in the store, or by way of it."""

    def __init__(self, store: Store, max_parents: int) -> None:
        super().__init__()
        self._store = store
        self._parents = Parents(store, max_parents)

    def _new_id(self, prefix: str) -> str:
        return new_id(prefix)

    async def stored_turn(self, number: int) -> tuple[float, float]:
        """As `turn`. Putting the row is measured in `bench.store`."""
        request = self.read(number)
        began = time.process_time()
        if self.parent.id is not None:
            self.parent = await self._parents.find(self.parent.id, "")
        turn, encoding = self.begin(request)
        prepared = time.process_time() - encoding
        self.play(turn, number)
        ending = time.process_time()
        following = self.parent.next(turn, is_stored=True)
        row = row_of(turn, self.parent, following.history, "")
        self._parents.keep(following, "")
        ended = time.process_time()
        await self._store.put(row)
        # The next turn has no more of this one than its id.
        self.parent = Parent(id=following.id)
        return (prepared - began + ended - ending) * 1000, encoding * 1000


Row = tuple[int, float, float, int]


class Best:
    """The best of many conversations at each of `AT`."""

    def __init__(self) -> None:
        self._own: dict[int, list[float]] = {at: [] for at in AT}
        self._encoding: dict[int, list[float]] = {at: [] for at in AT}
        self._size: dict[int, int] = {}

    def add(self, number: int, took: tuple[float, float], size: int) -> None:
        """One turn of one conversation."""
        if number in self._own:
            self._own[number].append(took[0])
            self._encoding[number].append(took[1])
            self._size[number] = size

    def report(self, name: str) -> float:
        """Print a row for each; how much dearer the last is than the first."""
        for at in AT:
            ours, encoding = min(self._own[at]), min(self._encoding[at])
            print(f"{name:22} {at:5}  {ours:7.3f}  {encoding:9.3f}  {self._size[at]:9,}")
        return min(self._own[AT[-1]]) / min(self._own[AT[0]])


def over_socket() -> Best:
    """Turns of lanes."""
    best = Best()
    for _ in range(CONVERSATIONS):
        conversation = Conversation()
        for number in range(1, max(AT) + 1):
            best.add(number, conversation.turn(number), len(conversation.body))
    return best


async def over_http(url: str, max_parents: int) -> Best:
    """Turns by previous_response_id."""
    best = Best()
    store = choose_store(StoreConfig(url=url), os.environ)
    await store.open()
    for _ in range(CONVERSATIONS if max_parents else SLOW_CONVERSATIONS):
        conversation = StoredConversation(store, max_parents)
        for number in range(1, max(AT) + 1):
            took = await conversation.stored_turn(number)
            best.add(number, took, len(conversation.body))
    await store.close()
    return best


def ratios() -> Iterator[float]:
    """Of each way; the one that is read anew grows, and has no budget."""
    print(f"{'':22} turns  ours ms  encode ms      bytes")
    yield over_socket().report("socket")
    for kind in ("memory", "sqlite"):
        for name, max_parents in ((f"HTTP, {kind}", MAX_PARENTS), (f"HTTP, {kind}, anew", 0)):
            with tempfile.TemporaryDirectory() as folder:
                url = f"sqlite:{folder}/responses.db" if kind == "sqlite" else kind
                ratio = asyncio.run(over_http(url, max_parents)).report(name)
            if max_parents:
                yield ratio


def held() -> tuple[int, int]:
    """(bytes of the history as JSON, bytes that an idle lane holds) once it has `HISTORY_BYTES`."""
    Conversation().turn(1)  # what the first turn of a process makes once
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    conversation = Conversation()
    number = size = 0
    while size < HISTORY_BYTES:
        number += 1
        conversation.turn(number)
        size = len(dumps(list(conversation.parent.history.items)))
    packed = PackedParent.of(conversation.parent)
    del conversation
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(packed.data) == size
    return size, after - before


def main() -> int:
    """Print the figures; 1 when one is over its budget."""
    worst = max(ratios())
    print(f"ours at {AT[-1]} turns / at {AT[0]}: at most {worst:.2f} (budget {MAX_RATIO})")
    size, memory = held()
    print(f"{size:,} bytes of history hold {memory:,} bytes (budget {MAX_HELD_BYTES:,})")
    return int(worst > MAX_RATIO or memory > MAX_HELD_BYTES * size / HISTORY_BYTES)


if __name__ == "__main__":
    sys.exit(main())
