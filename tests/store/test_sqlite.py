"""The SQLite file: shared, private, durable; and what happens when it is damaged, locked or gone."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.store import schema
from gateway.store import sqlite as module
from gateway.store.lock import FileLock
from gateway.store.protocol import StoreError
from gateway.store.sqlite import SqliteStore
from tests.store.rows import ids, noise, row

VERSIONS = Path(__file__).parent / "versions"
NEXT: schema.Steps = (
    *schema.SQLITE,
    ("ALTER TABLE responses ADD COLUMN mood TEXT DEFAULT 'good'",),
)


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as another program sees it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


async def refused(path: Path, steps: schema.Steps = schema.SQLITE) -> str:
    """The sentence with which a file is refused."""
    store = SqliteStore(path, steps=steps)
    with pytest.raises(StoreError) as caught:
        await store.open()
    assert str(path) in caught.value.reason
    assert caught.value.reason.endswith(".")
    assert "\n" not in caught.value.reason
    return caught.value.reason


async def test_what_was_put_is_there_after_a_restart(sqlite: SqliteStore) -> None:
    await sqlite.put(row("a"))
    await sqlite.put(row("b", "a"))
    key = await sqlite.sealing_key()
    await sqlite.close()
    again = SqliteStore(sqlite.path)
    await again.open()
    assert await ids(again, "b") == ["a", "b"]
    assert await again.sealing_key() == key
    await again.close()


async def test_a_commit_is_synchronous_and_in_a_log(sqlite: SqliteStore) -> None:
    db = sqlite._writes
    settings = await sqlite._writer.do(
        lambda db: [module._pragma(db, name) for name in ("synchronous", "journal_mode")]
    )
    assert settings == [2, "wal"]
    assert db is sqlite._writes


async def test_nobody_else_can_read_the_files(sqlite: SqliteStore) -> None:
    await sqlite.put(row("a"))
    await sqlite.sealing_key()
    folder = sqlite.path.parent
    assert folder.stat().st_mode & 0o077 == 0
    modes = {path.name: path.stat().st_mode & 0o077 for path in folder.iterdir()}
    assert modes == dict.fromkeys(
        (
            "responses.db",
            "responses.db-wal",
            "responses.db-shm",
            "responses.db.key",
            "responses.db.lock",
        ),
        0,
    )


async def test_writes_that_wait_together_share_a_transaction(sqlite: SqliteStore) -> None:
    begun = []
    await sqlite._writer.do(lambda db: db.set_trace_callback(begun.append))
    await asyncio.gather(*(sqlite.put(row(f"r{index}")) for index in range(100)))
    await sqlite._writer.do(lambda db: db.set_trace_callback(None))
    assert len([sql for sql in begun if sql.startswith("BEGIN")]) < 20
    assert [await ids(sqlite, id) for id in ("r0", "r99")] == [["r0"], ["r99"]]


async def test_several_stores_on_one_file(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "responses.db") for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    for index in range(40):
        parent = f"r{index - 1}" if index else None
        await stores[index % 4].put(row(f"r{index}", parent))
    await asyncio.gather(
        *(store.put(row(f"{at}-{n}")) for at, store in enumerate(stores) for n in range(25))
    )
    for store in stores:
        assert await ids(store, "r39") == [f"r{index}" for index in range(40)]
        assert await ids(store, "3-24") == ["3-24"]
    assert len({await store.sealing_key() for store in stores}) == 1
    assert await stores[0].delete("r20", "me")
    assert await ids(stores[1], "r39") == []
    await asyncio.gather(*(store.close() for store in stores))


# -- versions


@pytest.mark.parametrize("file", sorted(VERSIONS.glob("*.db")), ids=lambda file: file.stem)
async def test_a_file_of_each_older_version_is_read(file: Path, tmp_path: Path) -> None:
    shutil.copy(file, tmp_path / "responses.db")
    store = SqliteStore(tmp_path / "responses.db")
    await store.open()
    assert await ids(store, "c") == ["a", "b", "c"]
    assert await store.get("b", "me") == row("b", "a")
    await store.put(row("d", "c"))
    assert await ids(store, "d") == ["a", "b", "c", "d"]
    await store.close()


async def test_a_step_is_taken_once_and_keeps_what_is_there(sqlite: SqliteStore) -> None:
    await sqlite.put(row("a"))
    stores = [SqliteStore(sqlite.path, steps=NEXT) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    assert await ids(stores[2], "a") == ["a"]
    with raw(sqlite.path) as db:
        assert db.execute("SELECT mood FROM responses").fetchall() == [("good",)]
        assert db.execute("PRAGMA user_version").fetchone() == (len(NEXT),)
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_newer_version_is_refused_with_words(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    newer = SqliteStore(path, steps=NEXT)
    await newer.open()
    await newer.close()
    assert "upgrade the gateway" in await refused(path)


async def test_a_step_that_fails_leaves_the_version_that_was(sqlite: SqliteStore) -> None:
    await sqlite.put(row("a"))
    broken: schema.Steps = (*NEXT, ("CREATE TABLE half (x)", "NONSENSE"))
    await refused(sqlite.path, broken)
    with raw(sqlite.path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchall() == []
    await sqlite.put(row("b", "a"))
    assert await ids(sqlite, "b") == ["a", "b"]


# -- what is refused at the start


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    path.write_bytes(b"no database " * 1000)
    assert "damaged, or no SQLite database" in await refused(path)
    assert path.read_bytes() == b"no database " * 1000


async def test_the_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with raw(path) as db:
        db.execute("CREATE TABLE responses (theirs)")
    assert "another program" in await refused(path)


async def test_a_file_with_damaged_pages(sqlite: SqliteStore) -> None:
    for index in range(50):
        await sqlite.put(row(f"r{index}", text=noise(20_000)))
    await sqlite.close()
    content = bytearray(sqlite.path.read_bytes())
    for at in range(4096 * 3, len(content), 4096):
        content[at : at + 64] = b"\xff" * 64
    sqlite.path.write_bytes(content)
    assert "is damaged" in await refused(sqlite.path)


async def test_a_file_that_was_cut(sqlite: SqliteStore) -> None:
    for index in range(50):
        await sqlite.put(row(f"r{index}", text=noise(20_000)))
    await sqlite.close()
    os.truncate(sqlite.path, 4096 * 20)
    assert "is damaged" in await refused(sqlite.path)


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    await refused(tmp_path / "file" / "responses.db")


async def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "responses.db").mkdir()
    await refused(tmp_path / "responses.db")


async def test_a_key_that_is_none(sqlite: SqliteStore) -> None:
    sqlite.path.with_name("responses.db.key").write_bytes(b"short")
    assert "responses.db.key holds 5 bytes" in await refused(sqlite.path)


# -- what goes wrong later


async def test_a_locked_file(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    await sqlite.close()
    store = SqliteStore(sqlite.path)
    await store.open()
    with raw(sqlite.path) as other:
        other.execute("BEGIN IMMEDIATE")
        results = await asyncio.gather(
            *(store.put(row(id)) for id in ("a", "b", "c")), return_exceptions=True
        )
        assert all("locked" in str(result) for result in results)
        assert await store.get("a", "me") is None
        other.execute("ROLLBACK")
    await store.put(row("d"))
    assert await ids(store, "d") == ["d"]
    await store.close()


async def test_another_gateway_that_has_stopped_in_mid_write(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sqlite.put(row("a"))
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    other = FileLock(sqlite.path.with_name("responses.db.lock"))
    with other.held(0), pytest.raises(StoreError, match="locked"):
        await sqlite.put(row("b", "a"))
    await sqlite.put(row("b", "a"))
    assert await ids(sqlite, "b") == ["a", "b"]
    other.close()


async def test_a_full_disk_refuses_what_is_large_and_keeps_what_it_has(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sqlite.put(row("a"))
    prepare = module._prepare

    def prepare_full(db: sqlite3.Connection, path: Path, steps: schema.Steps) -> None:
        prepare(db, path, steps)
        db.execute("PRAGMA max_page_count = 20").fetchall()

    monkeypatch.setattr(module, "_prepare", prepare_full)
    limit = "PRAGMA max_page_count = {}"
    await sqlite._writer.do(lambda db: db.execute(limit.format(20)).fetchall())
    results = await asyncio.gather(
        sqlite.put(row("b", "a", text=noise(1_000_000))),
        sqlite.put(row("c", "a")),
        return_exceptions=True,
    )
    assert isinstance(results[0], StoreError)
    assert "full" in results[0].reason
    assert results[1] is None
    assert await ids(sqlite, "b") == []
    assert await ids(sqlite, "c") == ["a", "c"]
    monkeypatch.setattr(module, "_prepare", prepare)
    await sqlite._writer.do(lambda db: db.execute(limit.format(1_000_000)).fetchall())
    await sqlite.put(row("b", "a", text=noise(1_000_000)))
    assert await ids(sqlite, "b") == ["a", "b"]


async def test_a_disk_that_is_gone_and_comes_back(sqlite: SqliteStore, tmp_path: Path) -> None:
    await sqlite.put(row("a"))
    sqlite.path.parent.rename(tmp_path / "aside")
    for attempt in (sqlite.put(row("b")), sqlite.chain("a", "me"), sqlite.check()):
        with pytest.raises(StoreError, match="is gone"):
            await attempt
    assert not sqlite.path.parent.exists()
    (tmp_path / "aside").rename(sqlite.path.parent)
    await sqlite.put(row("b", "a"))
    assert await ids(sqlite, "b") == ["a", "b"]


async def test_a_file_that_is_gone_is_not_made_anew_by_a_turn(sqlite: SqliteStore) -> None:
    await sqlite.put(row("a"))
    sqlite.path.unlink()
    with pytest.raises(StoreError, match="is gone"):
        await sqlite.put(row("b", "a"))
    assert not sqlite.path.exists()


async def test_a_file_that_is_another_is_used(sqlite: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    backup = tmp_path / "backup" / sqlite.path.name
    await sqlite.put(row("a"))
    with raw(sqlite.path) as db, raw(backup) as copy:
        db.backup(copy)
    await sqlite.put(row("b", "a"))
    # With its folder: a write-ahead log that stays behind belongs to the old file.
    sqlite.path.parent.rename(tmp_path / "aside")
    backup.parent.rename(sqlite.path.parent)
    await sqlite.put(row("c", "a"))
    assert await ids(sqlite, "c") == ["a", "c"]
    assert await sqlite.get("b", "me") is None


@pytest.mark.parametrize("column", ["items", "response"])
@pytest.mark.parametrize(
    "damage",
    [
        "substr({0}, 1, length({0}) - 1)",
        "substr({0}, 1, 3)",
        "x''",
        "CAST({0} || x'00' AS BLOB)",
        "CAST(substr({0}, 1, 20) || x'00ff' || substr({0}, 23) AS BLOB)",
        "(SELECT {0} FROM responses WHERE id = 'other')",
    ],
)
async def test_a_damaged_row_is_not_there(
    sqlite: SqliteStore, column: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for kept in (row("other"), row("a"), row("b", "a")):
        await sqlite.put(kept)
    with raw(sqlite.path) as db:
        db.execute(f"UPDATE responses SET {column} = {damage.format(column)} WHERE id = 'a'")
    assert await sqlite.get("a", "me") is None
    assert "damaged" in caplog.text
    if column == "items":
        assert await ids(sqlite, "b") == []
    assert await sqlite.get("b", "me") == row("b", "a")


async def test_work_that_cannot_be_done_does_not_stop_the_threads(sqlite: SqliteStore) -> None:
    with pytest.raises(TypeError):
        await sqlite.put(row("a", text=object()))
    with pytest.raises(ZeroDivisionError):
        await sqlite._reader.do(lambda db: 1 / 0)
    await sqlite.put(row("b"))
    assert await ids(sqlite, "b") == ["b"]


async def test_a_closed_store_says_so(sqlite: SqliteStore) -> None:
    await sqlite.close()
    with pytest.raises(RuntimeError, match="ended"):
        await sqlite.put(row("a"))
