"""What storing a turn costs, and reading a conversation back.

    python -m bench.store [--folder DIR] [--url postgresql://…]

A turn like those of a coding agent: 3 KB of new items, an answer of 1 KB, and a Response that repeats 50 KB of tools
and instructions. `put` is one after the other, `together` 64 at once; `fsync` is what the disk alone takes for one
page, and the bound for every `put`. `CPU` is that of the whole process for one operation.
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from gateway.config import StoreConfig
from gateway.store.choice import choose_store
from gateway.store.protocol import Row, Store

TURNS = 200
TOGETHER = 64
READS = 50

JSON = dict[str, Any]
_random = random.Random(1)
_words = [_random.randbytes(_random.randrange(2, 6)).hex() for _ in range(2000)]


def text(size: int) -> str:
    """Words, so that it can be compressed as far as code and prose can."""
    return " ".join(_random.choices(_words, k=size // 9))


TOOLS = [
    {
        "type": "function",
        "name": f"tool_{at}",
        "description": text(900),
        "parameters": {"type": "object"},
    }
    for at in range(45)
]


def turn(id: str, previous_id: str | None) -> Row:
    """One turn: a tool's output comes in, a message and a call go out."""
    given: list[JSON] = [
        {
            "type": "message",
            "id": f"msg_{id}",
            "content": [{"type": "output_text", "text": text(700)}],
        },
        {
            "type": "custom_tool_call",
            "id": f"ctc_{id}",
            "call_id": f"call_{id}",
            "input": text(300),
        },
    ]
    return Row(
        id=id,
        owner="",
        created_at=1_790_000_000,
        response={"id": id, "output": given, "tools": TOOLS, "instructions": text(8000)},
        input=[
            {
                "type": "custom_tool_call_output",
                "call_id": f"call_{previous_id}",
                "output": text(3000),
            }
        ],
        given=given,
        previous_id=previous_id,
    )


def fsync_ms(folder: Path) -> float:
    """The disk's own share."""
    path = folder / "fsync"
    taken = []
    with path.open("wb") as file:
        for _ in range(50):
            file.write(os.urandom(4096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    path.unlink()
    return statistics.median(taken) * 1000


async def timed(name: str, operations: list[Any]) -> None:
    """One operation after the other."""
    taken = []
    cpu = time.process_time()
    for operation in operations:
        began = time.perf_counter()
        await operation()
        taken.append(time.perf_counter() - began)
    cpu = (time.process_time() - cpu) / len(operations)
    taken.sort()
    p50, p95 = statistics.median(taken), taken[int(len(taken) * 0.95)]
    print(f"| {name} | {p50 * 1000:.2f} | {p95 * 1000:.2f} | {cpu * 1000:.2f} |")


async def measure(store: Store) -> None:
    """The table."""
    mark = f"b{time.time_ns()}_"
    rows = [turn(f"{mark}{at}", f"{mark}{at - 1}" if at else None) for at in range(TURNS)]
    print("| operation | p50 ms | p95 ms | CPU ms |\n| --- | --- | --- | --- |")
    await timed("put", [lambda row=row: store.put(row) for row in rows])
    for length in (2, 50, TURNS):
        id = f"{mark}{length - 1}"
        await timed(f"chain of {length}", [lambda id=id: store.chain(id, "")] * READS)
    await timed("get", [lambda: store.get(f"{mark}7", "")] * READS)
    batch = [turn(f"{mark}t{at}", None) for at in range(TOGETHER * 10)]
    began = time.perf_counter()
    for at in range(0, len(batch), TOGETHER):
        await asyncio.gather(*(store.put(row) for row in batch[at : at + TOGETHER]))
    print(f"\n{len(batch) / (time.perf_counter() - began):.0f} puts a second, {TOGETHER} together")


async def main() -> None:
    """Open, measure, close."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where the SQLite file is to lie")
    parser.add_argument("--url", help="of another store")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        url = arguments.url or f"sqlite:{name}/responses.db"
        print(f"{url.partition(':')[0]}; fsync {fsync_ms(Path(name)):.2f} ms\n")
        store = choose_store(StoreConfig(url=url), os.environ)
        await store.open()
        await measure(store)
        await store.close()
        if not arguments.url:
            print(f"{kilobytes(Path(name)) / (TURNS + TOGETHER * 10):.1f} KB a turn on the disk")


def kilobytes(folder: Path) -> float:
    """Of the database and its log."""
    return sum(path.stat().st_size for path in folder.glob("responses.db*")) / 1024


if __name__ == "__main__":
    asyncio.run(main())
