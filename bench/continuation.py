"""What a continued turn costs as its chain grows, and what an idle one holds: `python -m bench.continuation`.

Every turn has the same own items (two outputs, a reason, a word, a namespaced call and a patch), so only the
chain differs. CPU time; the best of many conversations, so that other load on the machine does not count.
Budget: the parts that are ours (finding, expanding, lowering) at 200 turns <= 1.5 times those at 2;
1 MB of history in <= 1.5 MB.
"""

import gc
import itertools
import sys
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

from gateway.server.parent import PackedParent, Parent
from gateway.turn.request import TurnOptions
from gateway.turn.turn import Turn
from gateway.upstream.dialect import make_dialect
from gateway.upstream.profiles import load_profile
from gateway.wire.json import dumps, dumps_str, loads

JSON = dict[str, Any]

AT = (2, 50, 200)
CONVERSATIONS = 15
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
        return dumps({"model": "m", "tools": tools(), "input": items, "store": False})

    def turn(self, number: int) -> tuple[float, float]:
        """Milliseconds of (finding, expanding, lowering) and of encoding."""
        request = loads(self.request(number))
        began = time.process_time()
        turn = Turn(request, self.parent.history, TurnOptions(), self._new_id, lambda: 0)
        lowered = turn.request_to_send()
        prepared = time.process_time()
        self.body = self._encode(lowered)
        encoded = time.process_time()
        turn.send()
        for event in answer(number):
            turn.receive(event)
        turn.events_to_send()
        ending = time.process_time()
        self.parent = Parent(id=turn.response["id"], history=turn.next_history())
        ended = time.process_time()
        return (prepared - began + ended - ending) * 1000, (encoded - prepared) * 1000


def best() -> Iterator[tuple[int, float, float, int]]:
    """(turn, own milliseconds, encoding milliseconds, bytes sent) at each of `AT`."""
    own: dict[int, list[float]] = {at: [] for at in AT}
    encoding: dict[int, list[float]] = {at: [] for at in AT}
    size: dict[int, int] = {}
    for _ in range(CONVERSATIONS):
        conversation = Conversation()
        for number in range(1, max(AT) + 1):
            ours, dialects = conversation.turn(number)
            if number in own:
                own[number].append(ours)
                encoding[number].append(dialects)
                size[number] = len(conversation.body)
    for at in AT:
        yield at, min(own[at]), min(encoding[at]), size[at]


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
    rows = list(best())
    print("turns  ours ms  encode ms      bytes")
    for at, ours, encoding, size in rows:
        print(f"{at:5}  {ours:7.3f}  {encoding:9.3f}  {size:9,}")
    ratio = rows[-1][1] / rows[0][1]
    print(f"ours at {AT[-1]} turns / at {AT[0]}: {ratio:.2f} (budget {MAX_RATIO})")
    size, memory = held()
    print(f"{size:,} bytes of history hold {memory:,} bytes (budget {MAX_HELD_BYTES:,})")
    return int(ratio > MAX_RATIO or memory > MAX_HELD_BYTES * size / HISTORY_BYTES)


if __name__ == "__main__":
    sys.exit(main())
