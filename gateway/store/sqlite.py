"""A store in one SQLite file, for every process of one machine.

Two threads: one writes, one reads. A write is on the disk when it is acknowledged (WAL with
`synchronous=FULL`); writes that wait at the same time share one transaction, hence one fsync.
"""

import contextlib
import errno
import itertools
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gateway.store import faults, schema
from gateway.store import sqlite_rows as rows
from gateway.store import sqlite_sql as sql
from gateway.store.lock import FileLock
from gateway.store.protocol import Link, Row, StoreError, can_be_id
from gateway.store.retention import (
    MARK_SECONDS,
    MAX_SWEEP_ROWS,
    Clock,
    Cutoff,
    Retention,
    Sweeper,
)
from gateway.store.sealing import load_key
from gateway.store.worker import Job, Worker

log = logging.getLogger(__name__)

# Writers of other processes are done in milliseconds; one that is not has stopped in mid-write.
BUSY_SECONDS = 5.0
# Files up to this size are read whole at the start, which takes a second at most.
MAX_CHECKED_BYTES = 256 * 1024 * 1024
# The write-ahead log is cut back to this after a burst.
MAX_WAL_BYTES = 64 * 1024 * 1024
# Free pages given back to the disk in one batch of a sweep.
MAX_FREED_PAGES = 1000
# "RGW1": tells our files from other programs' (PRAGMA application_id).
APPLICATION_ID: Final = 0x52475731


class SqliteStore:
    """See `Store`.

    Args:
        path: the file; it and its folder are made when they are not there.
        retention: what may stay.
        clock: the wall clock.
        steps: all versions of the schema.
    """

    def __init__(
        self,
        path: Path,
        retention: Retention = Retention(),  # noqa: B008  (frozen)
        clock: Clock | None = None,
        steps: schema.Steps = schema.SQLITE,
    ) -> None:
        self.path = path
        self._clock = clock or Clock()
        self._key = b""
        self._writes = _File(path, steps, may_make=True)
        self._reads = _File(path, steps, may_make=False)
        self._writer = Worker("store-writer", self._write, self._writes.close)
        self._reader = Worker("store-reader", self._read, self._reads.close)
        self.sweeper = Sweeper(self._drop_some, retention, self._clock)

    async def open(self) -> None:
        """Make the file ready: its folder, its schema; and look whether it is whole."""
        self._writer.start()
        self._reader.start()
        try:
            await self._writer.do(_look_over)
            self._key = self._load_key()
        except StoreError:
            await self.close()
            raise
        self.sweeper.start()

    async def close(self) -> None:
        """Finish what waits and close the file."""
        await self.sweeper.stop()
        await self._writer.stop()
        await self._reader.stop()

    async def put(self, row: Row) -> None:
        """Keep a row: on the disk when this returns."""
        now = self._clock.stamp()
        await self._writer.do(lambda db: rows.put(db, row, now))

    async def get(self, id: str, owner: str) -> Row | None:
        """One row, or None when it is unknown or somebody else's."""
        if not can_be_id(id):
            return None
        return await self._reader.do(lambda db: rows.get(db, id, owner))

    async def delete(self, id: str, owner: str) -> bool:
        """Forget a row; False when there was none."""
        return can_be_id(id) and await self._writer.do(lambda db: rows.delete(db, id, owner))

    async def chain(self, id: str, owner: str) -> list[Link]:
        """The row and all that it continues, oldest first; empty when any of them is missing."""
        if not can_be_id(id):
            return []
        links, used_at = await self._reader.do(lambda db: rows.chain(db, id, owner))
        if links:
            self._use(id, used_at)
        return links

    async def whole(self, id: str, owner: str, since: bytes | None = None) -> bytes | None:
        """Whether `chain` would find something; a mark then."""
        if not can_be_id(id):
            return None
        found = await self._reader.do(lambda db: rows.whole(db, id, owner, since))
        if found is None:
            return None
        mark, used_at = found
        self._use(id, used_at)
        return mark

    def _use(self, id: str, used_at: int) -> None:
        now = self._clock.stamp()
        if now - used_at > MARK_SECONDS:
            self._writer.post(lambda db: db.execute(sql.MARK, (now, id)))

    async def check(self) -> None:
        """Write something small."""
        now = str(self._clock.stamp()).encode()
        await self._writer.do(lambda db: db.execute(sql.CHECK, (now,)).rowcount)

    async def sealing_key(self) -> bytes:
        """The key in the file beside the database, as it was at the start."""
        return self._key

    def _load_key(self) -> bytes:
        path = self.path.with_name(f"{self.path.name}.key")
        try:
            return load_key(path)
        except (OSError, ValueError) as error:
            raise StoreError(f"The sealing key {path} cannot be used: {error}.") from error

    async def _drop_some(self, cutoff: Cutoff) -> int:
        ends, before = await self._reader.do(lambda db: _droppable(db, cutoff))
        if not ends:
            await self._writer.do(_give_back)
            return 0
        return await self._writer.do(lambda db: _drop(db, ends, before, cutoff))

    def _write(self, jobs: list[Job[sqlite3.Connection]]) -> None:
        """One batch in one transaction; when that fails, each alone, so that one spoils no other."""
        try:
            with self._writes.transaction() as db:
                for job in jobs:
                    job.result = job.work(db)
        except Exception as error:  # the edge of a thread: it must live on, whatever it was
            self._writes.close()
            if len(jobs) > 1 and not faults.is_busy(error):
                for job in jobs:
                    self._write([job])
                return
            for job in jobs:
                job.error = self._reason(error)

    def _read(self, jobs: list[Job[sqlite3.Connection]]) -> None:
        for job in jobs:
            try:
                job.result = job.work(self._reads.connection())
            except Exception as error:  # the edge of a thread: it must live on, whatever it was
                self._reads.close()
                job.error = self._reason(error)

    def _reason(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error | OSError):
            return StoreError(faults.words(self.path, error))
        return error


class _File:
    """One connection, of one thread; opened anew after an error, and when its file is another.

    The file is made at the start only. Later one that is gone may be on a disk that comes back:
    what went into a new one would vanish then.
    """

    def __init__(self, path: Path, steps: schema.Steps, *, may_make: bool) -> None:
        self._path = path
        self._steps = steps
        self._may_make = may_make
        self._db: sqlite3.Connection | None = None
        self._lock: FileLock | None = None
        self._identity: tuple[int, int] | None = None

    def connection(self) -> sqlite3.Connection:
        """The open database."""
        if self._db is not None and self._identity != _identity(self._path):
            # Removed or replaced: what is written to the old one could never be read again.
            log.error("%s is not the file that it was", self._path)
            self.close()
        if self._db is None:
            self._db = self._open()
            self._may_make = False
        return self._db

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that writes; on the disk when the context has ended."""
        db = self.connection()
        assert self._lock is not None
        with self._lock.held(BUSY_SECONDS):
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    def close(self) -> None:
        """Close it; what has been begun is taken back."""
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self) -> sqlite3.Connection:
        if self._may_make:
            self._make()
        # Before it is opened: should it be replaced just now, it is opened anew the next time.
        self._identity = _identity(self._path)
        if self._identity is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))
        self._lock = FileLock(self._path.with_name(f"{self._path.name}.lock"))
        db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            with self._lock.held(BUSY_SECONDS):
                _prepare(db, self._path, self._steps)
        except BaseException:
            db.close()
            raise
        return db

    def _make(self) -> None:
        """An empty file for its owner alone: SQLite would make it readable for all.

        A file that is there is not even opened: closing it would end the locks that SQLite holds
        on it for this process (sqlite.org/howtocorrupt.html, POSIX advisory locks).
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(db: sqlite3.Connection, path: Path, steps: schema.Steps) -> None:
    found, is_new = _pragma(db, "application_id"), not _pragma(db, "schema_version")
    if found != APPLICATION_ID and not (is_new and found == 0):
        raise StoreError(f"{path} is a database of another program: name another --store.")
    if is_new:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # later it would have no effect
    if _pragma(db, "journal_mode = WAL") != "wal":
        raise StoreError(f"{path} cannot have a write-ahead log: put it on a local disk.")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}")
    left = schema.steps_left(_pragma(db, "user_version"), steps, str(path))
    if not left:
        return
    db.execute("BEGIN IMMEDIATE")
    for statement in itertools.chain.from_iterable(left):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {len(steps)}")
    db.execute("COMMIT")


class _Malformed(sqlite3.DatabaseError):
    """What a look over the file has found; SQLite gives the verdict as a row."""

    sqlite_errorname = "SQLITE_CORRUPT"


def _pragma(db: sqlite3.Connection, text: str) -> Any:
    return db.execute(f"PRAGMA {text}").fetchone()[0]


def _look_over(db: sqlite3.Connection) -> None:
    if _pragma(db, "page_count") * _pragma(db, "page_size") <= MAX_CHECKED_BYTES:
        verdict = _pragma(db, "quick_check(1)")
        if verdict != "ok":
            raise _Malformed(" ".join(verdict.split()))


def _droppable(db: sqlite3.Connection, cutoff: Cutoff) -> tuple[list[str], int]:
    """Ends of conversations that may go, and the time before which they were last used."""
    if cutoff.expired_before is not None:
        ends = db.execute(sql.ENDS, (cutoff.expired_before, MAX_SWEEP_ROWS)).fetchall()
        if ends:
            return [id for (id,) in ends], cutoff.expired_before
    if _excess(db, cutoff) <= 0:
        return [], 0
    ends = db.execute(sql.ENDS, (cutoff.spared_since, MAX_SWEEP_ROWS)).fetchall()
    return [id for (id,) in ends], cutoff.spared_since


def _drop(db: sqlite3.Connection, ends: list[str], before: int, cutoff: Cutoff) -> int:
    """Drop from each end towards the first turn, one batch; of what is not expired no more than the excess."""
    is_expired = before == cutoff.expired_before
    excess = _excess(db, cutoff)
    waiting = list(reversed(ends))
    dropped = 0
    while waiting and dropped < MAX_SWEEP_ROWS and (is_expired or excess > 0):
        found = db.execute(sql.DROP, (waiting.pop(), before)).fetchall()
        for previous_id, size in found:
            dropped += 1
            excess -= size
            if previous_id is not None:
                waiting.append(previous_id)
    return dropped


def _excess(db: sqlite3.Connection, cutoff: Cutoff) -> int:
    pages = _pragma(db, "page_count") - _pragma(db, "freelist_count")
    return int(pages * _pragma(db, "page_size")) - cutoff.max_bytes


def _give_back(db: sqlite3.Connection) -> None:
    # Page by page: Python steps once through a statement that has no columns.
    for _ in range(min(_pragma(db, "freelist_count"), MAX_FREED_PAGES)):
        db.execute("PRAGMA incremental_vacuum(1)")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
