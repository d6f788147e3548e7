"""Kill processes that put rows, at any moment, and hold the store to what it has acknowledged."""

import asyncio
import contextlib
import os
import random
import sys
from pathlib import Path

from gateway.store.protocol import Store
from tests.store.rows import ids, row

PUTTER = Path(__file__).parent / "putter.py"
REPO = PUTTER.parents[2]
START_SECONDS = 15.0


async def killed(url: str, name: str, after: int, delay: float) -> list[str]:
    """Start a putter and kill it so many acknowledgements and seconds later; the acknowledged ids."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PUTTER), url, name),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    assert process.stdout is not None
    acknowledged: list[bytes] = []
    try:
        async with asyncio.timeout(START_SECONDS):
            while len(acknowledged) < after:
                acknowledged.append(
                    await process.stdout.readexactly(1) + await process.stdout.readline()
                )
        # It is to be killed in mid-transaction, mid-fsync, mid-anything; it does not end by itself.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), delay)
            raise AssertionError(f"the putter ended with {process.returncode}")
    finally:
        process.kill()
        rest = await process.stdout.read()
        await process.wait()
    acknowledged += rest.splitlines()
    return [line.decode().strip() for line in acknowledged]


async def kill_many(url: str, store: Store, times: int, seed: int) -> None:
    """Kill that often; after each, everything acknowledged is there, whole, and continuable.

    Args:
        url: of the store.
        store: the same one, open in this process all the while.
        times: how often.
        seed: of the moments.
    """
    moments = random.Random(seed)
    for number in range(times):
        name = f"n{number}"
        seen = await killed(url, name, moments.randrange(1, 60), moments.uniform(0, 0.02))
        for id in seen:
            found = await store.get(id, "me")
            assert found is not None, id
            assert found.input == row(id).input
            assert found.response["output"] == found.given
        latest = {id.rpartition(".")[0]: int(id.rpartition(".")[2]) for id in seen}
        for talk, count in latest.items():
            line = [f"{talk}.{index}" for index in range(count + 1)]
            assert await ids(store, line[-1]) == line
            await store.put(row(f"{talk}.next", line[-1]))
            assert await ids(store, f"{talk}.next") == [*line, f"{talk}.next"]
