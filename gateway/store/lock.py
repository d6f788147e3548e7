"""One writer at a time, over all processes: a lock on a file beside the database.

SQLite has locks of its own, but before 3.51.3 a checkpoint that meets a commit of another
connection can lose committed pages (sqlite.org/wal.html, the WAL-reset bug); most systems still
have such a version. Who writes or may start a checkpoint holds this lock. It ends with its process.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

# Between two attempts; a write takes a few milliseconds.
POLL_SECONDS = 0.001


class FileLock:
    """The lock of one thread; each has a handle of its own, so that threads exclude each other too."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextlib.contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """Hold it.

        Raises:
            TimeoutError: somebody else has held it for so long.
        """
        deadline = time.monotonic() + seconds
        while not self._take():
            if time.monotonic() > deadline:
                raise TimeoutError("another process holds its lock")
            time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file, and of the lock."""
        os.close(self._handle)

    def _take(self) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
