"""Several processes on one SQLite file, some of which are killed."""

import asyncio
from pathlib import Path

import pytest

from gateway.store.sqlite import SqliteStore
from tests.store.killing import kill_many, killed
from tests.store.rows import ids


@pytest.mark.timeout(60)
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "responses.db")
    await store.open()
    await kill_many(f"sqlite:{store.path}", store, times=10, seed=1)
    await store.close()


async def test_killed_while_another_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "responses.db")
    await store.open()
    runs = [killed(f"sqlite:{store.path}", name, 100, 0.0) for name in ("one", "two", "three")]
    for seen in await asyncio.gather(*runs):
        for id in seen:
            chain = await ids(store, id)
            assert chain[-1] == id
            assert len(chain) == int(id.rpartition(".")[2]) + 1
    await store.close()
