"""Retention and size of a SQLite file. PostgreSQL: tests/peers/test_postgres.py."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.retention import Clock, Retention, seconds_of
from gateway.store.sqlite import SqliteStore
from tests.store.ageing import *  # noqa: F403  (each test of the suite is a test of this file)
from tests.store.ageing import Age
from tests.store.rows import noise, row


@pytest.fixture
async def age(tmp_path: Path) -> AsyncIterator[Age]:
    opened: list[SqliteStore] = []

    async def open(retention: Retention, clock: Clock) -> SqliteStore:
        store = SqliteStore(tmp_path / "responses.db", retention, clock)
        await store.open()
        opened.append(store)
        return store

    yield open
    for store in opened:
        await store.close()


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("1h", 3600)])
def test_how_retention_is_written(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


async def test_the_file_gets_smaller_again(age: Age, tmp_path: Path) -> None:
    now = 1_800_000_000.0
    store = await age(Retention(), Clock(now=lambda: now, uptime=lambda: now))
    for index in range(20):
        await store.put(row(f"r{index}", text=noise(200_000)))
    await store.close()
    large = (tmp_path / "responses.db").stat().st_size
    now += 31 * 24 * 60 * 60
    store = await age(Retention(), Clock(now=lambda: now, uptime=lambda: now))
    assert await store.sweeper.sweep() in (0, 20)  # 0: the first sweep after the start was faster
    await store.close()
    assert (tmp_path / "responses.db").stat().st_size < large / 4
