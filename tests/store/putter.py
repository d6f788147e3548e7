"""A process that puts rows and prints the id of each that was acknowledged: to be killed at any moment.

    python putter.py STORE_URL NAME

Four conversations grow at once, each row on the one before, so that acknowledged rows share
transactions with rows that are not. An id is printed after its put has returned, with its place in
its conversation: `NAME-2.17` stands on `NAME-2.16` and so on.
"""

import asyncio
import os
import sys

from gateway.config import StoreConfig
from gateway.store.choice import choose_store
from gateway.store.protocol import Store
from tests.store.rows import noise, row

TALKS = 4


async def talk(store: Store, name: str) -> None:
    """One conversation, until the process ends."""
    previous: str | None = None
    count = 0
    while True:
        id = f"{name}.{count}"
        await store.put(row(id, previous, text=noise(3000)))
        # One system call: a line is there whole or not at all.
        os.write(1, f"{id}\n".encode())
        previous, count = id, count + 1


async def main() -> None:
    """Open the store, say so, and put."""
    url, name = sys.argv[1:]
    store = choose_store(StoreConfig(url=url), os.environ)
    await store.open()
    async with asyncio.TaskGroup() as group:
        for number in range(TALKS):
            group.create_task(talk(store, f"{name}-{number}"))


asyncio.run(main())
