"""kill -9 at fifty random moments, on one SQLite file."""

from pathlib import Path

from gateway.store.sqlite import SqliteStore
from tests.store.killing import kill_many


async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "responses.db")
    await store.open()
    await kill_many(f"sqlite:{store.path}", store, times=50, seed=3)
    await store.close()
