"""Stores for tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.sqlite import SqliteStore

pytest.register_assert_rewrite("tests.store.contract")


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An open store in a new file."""
    store = SqliteStore(tmp_path / "state" / "responses.db")
    await store.open()
    yield store
    await store.close()
