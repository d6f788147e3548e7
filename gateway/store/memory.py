"""A store in this process: gone with it, and bounded; the conversation goes first that nobody used.

Rows are kept packed: a fraction of the memory of the objects, a true size to bound, and nobody can
change what is stored. Conversations are dropped from their ends, as in the other stores.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from gateway.store.encoding import Packed, pack, unpack_link, unpack_row
from gateway.store.protocol import MAX_CHAIN, Link, Row, StoreError
from gateway.store.retention import RETENTION_SECONDS
from gateway.store.sealing import new_key

# A busy day of one developer is some thousand turns.
MAX_ROWS = 20_000
# What a small machine can spare; a turn of a coding agent adds 2 to 20 KB, compressed.
MAX_BYTES = 512 * 1024 * 1024


class _Kept(NamedTuple):
    owner: str
    previous_id: str | None
    created_at: int
    packed: Packed

    @property
    def size(self) -> int:
        return len(self.packed.items) + len(self.packed.response)


class MemoryStore:
    """See `Store`.

    Args:
        max_rows: how many rows may stay.
        max_bytes: of all rows together.
        retention_seconds: how long a row may stay that nobody uses.
        now: seconds that only grow; setting the wall clock is nothing to a process.
    """

    def __init__(
        self,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        retention_seconds: float = RETENTION_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._retention = retention_seconds
        self._now = now
        self._rows: dict[str, _Kept] = {}
        self._bytes = 0
        # How many rows continue an id, and when each row was used that none continues: the oldest first.
        self._followers: Counter[str] = Counter()
        self._ends: OrderedDict[str, float] = OrderedDict()
        self._deleted = 0
        self._key = new_key()

    async def open(self) -> None:
        """It is always ready."""

    async def put(self, row: Row) -> None:
        """Keep a row, and drop what is beyond the bounds."""
        there = self._rows.get(row.id)
        if there is not None and there.owner != row.owner:
            raise StoreError(f"The response {row.id} is another key's.")
        self._drop(row.id)
        kept = _Kept(row.owner, row.previous_id, row.created_at, pack(row))
        self._rows[row.id] = kept
        self._bytes += kept.size
        if row.previous_id is not None:
            self._followers[row.previous_id] += 1
            self._ends.pop(row.previous_id, None)
        if not self._followers[row.id]:
            self._ends[row.id] = self._now()
        while self._rows and self._is_too_much():
            self._drop(next(iter(self._ends or self._rows)))

    async def get(self, id: str, owner: str) -> Row | None:
        """One row, or None when it is unknown or somebody else's."""
        kept = self._rows.get(id)
        if kept is None or kept.owner != owner:
            return None
        return unpack_row(id, owner, kept.previous_id, kept.created_at, kept.packed)

    async def delete(self, id: str, owner: str) -> bool:
        """Forget a row; False when there was none."""
        kept = self._rows.get(id)
        if kept is None or kept.owner != owner:
            return False
        self._drop(id)
        self._deleted += 1
        return True

    async def chain(self, id: str, owner: str) -> list[Link]:
        """The row and all that it continues, oldest first; empty when any of them is missing."""
        line = self._line(id, owner, MAX_CHAIN)
        if not line or line[-1][1].previous_id is not None:
            return []
        self._use(id)
        return [unpack_link(id, row.previous_id, row.packed.items) for id, row in reversed(line)]

    async def whole(self, id: str, owner: str, since: bytes | None = None) -> bytes | None:
        """Whether `chain` would find something; a mark then."""
        mark = b"%d" % self._deleted
        is_known = mark == since
        line = self._line(id, owner, 2 if is_known else MAX_CHAIN)
        if not line or (line[-1][1].previous_id is not None and not (is_known and len(line) == 2)):
            return None
        self._use(id)
        return mark

    def _line(self, id: str, owner: str, most: int) -> list[tuple[str, _Kept]]:
        """The row and what it continues, as far as that is there, the newest first."""
        line: list[tuple[str, _Kept]] = []
        wanted: str | None = id
        while wanted is not None and len(line) < most:
            kept = self._rows.get(wanted)
            if kept is None or kept.owner != owner:
                break
            line.append((wanted, kept))
            wanted = kept.previous_id
        return line

    def _use(self, id: str) -> None:
        if id in self._ends:
            self._ends[id] = self._now()
            self._ends.move_to_end(id)

    async def check(self) -> None:
        """Nothing can be wrong with it."""

    async def sealing_key(self) -> bytes:
        """A key of this process."""
        return self._key

    async def close(self) -> None:
        """Nothing is held open."""

    def _is_too_much(self) -> bool:
        if len(self._rows) > self._max_rows or self._bytes > self._max_bytes:
            return True
        return bool(self._ends) and next(iter(self._ends.values())) < self._now() - self._retention

    def _drop(self, id: str) -> None:
        """Forget a row. What it continued is an end then, and was used before all other ends."""
        kept = self._rows.pop(id, None)
        if kept is None:
            return
        self._bytes -= kept.size
        used_at = self._ends.pop(id, self._now())
        parent = kept.previous_id
        if parent is None:
            return
        self._followers[parent] -= 1
        if not self._followers[parent]:
            del self._followers[parent]
            if parent in self._rows:
                self._ends[parent] = used_at
                self._ends.move_to_end(parent, last=False)
