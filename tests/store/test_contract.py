"""The contract of stores, for those that need no server. PostgreSQL: tests/peers/test_postgres.py."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.store.memory import MemoryStore
from gateway.store.protocol import Store
from gateway.store.sqlite import SqliteStore
from tests.store.contract import *  # noqa: F403  (each test of the contract is a test of this file)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: Any, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = MemoryStore()
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "responses.db")
    await opened.open()
    yield opened
    await opened.close()
