"""A store in this process: gone with it, and bounded; what was not used for longest goes first.

Rows are kept encoded: a tenth of the memory of the objects, a true size to bound, and nobody can
change what is stored.
"""

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from gateway.store.protocol import Row

# A busy day of one developer is some thousand turns.
MAX_ROWS = 20_000
# What a small machine can spare; a turn of a coding agent adds 10 to 100 KB of items and schemas.
MAX_BYTES = 512 * 1024 * 1024
# A chain this long is a loop of a client's making; real ones are compacted long before.
MAX_CHAIN = 10_000

_encoder = msgspec.json.Encoder()  # not msgpack: JSON has no bound on integers
_decoder = msgspec.json.Decoder(Row)


class _Kept(NamedTuple):
    owner: str
    previous_id: str | None
    data: bytes


class MemoryStore:
    """See `Store`."""

    def __init__(self, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._rows: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    async def put(self, row: Row) -> None:
        """Keep a row, and drop the oldest beyond the bounds."""
        kept = _Kept(row.owner, row.previous_id, _encoder.encode(row))
        self._drop(row.id)
        self._rows[row.id] = kept
        self._bytes += len(kept.data)
        self._line(row.id, row.owner)
        while len(self._rows) > self._max_rows or self._bytes > self._max_bytes:
            self._drop(next(iter(self._rows)))

    async def get(self, id: str, owner: str) -> Row | None:
        """One row, or None when it is unknown or somebody else's."""
        kept = self._rows.get(id)
        return _decoder.decode(kept.data) if kept and kept.owner == owner else None

    async def delete(self, id: str, owner: str) -> bool:
        """Forget a row; False when there was none."""
        kept = self._rows.get(id)
        if kept is None or kept.owner != owner:
            return False
        self._drop(id)
        return True

    async def chain(self, id: str, owner: str) -> list[Row]:
        """The row and all that it continues, oldest first; empty when any of them is missing."""
        line = self._line(id, owner)
        if not line or self._rows[line[0]].previous_id is not None:
            return []
        return [_decoder.decode(self._rows[id].data) for id in line]

    async def close(self) -> None:
        """Nothing is held open."""

    def _line(self, id: str, owner: str) -> list[str]:
        """The ids from the oldest ancestor that is there down to `id`, all marked as just used.

        What a live conversation stands on must not be the first to go.
        """
        line: list[str] = []
        wanted: str | None = id
        while wanted is not None and len(line) < MAX_CHAIN:
            kept = self._rows.get(wanted)
            if kept is None or kept.owner != owner:
                break
            line.append(wanted)
            wanted = kept.previous_id
        line.reverse()
        for ancestor in line:
            self._rows.move_to_end(ancestor)
        return line

    def _drop(self, id: str) -> None:
        kept = self._rows.pop(id, None)
        if kept is not None:
            self._bytes -= len(kept.data)
