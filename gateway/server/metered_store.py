"""A store whose operations are timed and counted, whatever kind of store it is."""

import time
from collections.abc import Awaitable
from typing import TypeVar

from gateway.server.metrics import Metrics
from gateway.store.protocol import Link, Row, Store

T = TypeVar("T")


class MeteredStore:
    """Passes everything on (see `Store` for what each does).

    Args:
        store: the real one.
        metrics: is told.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    async def open(self) -> None:
        await self._store.open()

    async def put(self, row: Row) -> None:
        await self._timed("put", self._store.put(row))

    async def get(self, id: str, owner: str) -> Row | None:
        return await self._timed("get", self._store.get(id, owner))

    async def delete(self, id: str, owner: str) -> bool:
        return await self._timed("delete", self._store.delete(id, owner))

    async def chain(self, id: str, owner: str) -> list[Link]:
        return await self._timed("chain", self._store.chain(id, owner))

    async def whole(self, id: str, owner: str, since: bytes | None = None) -> bytes | None:
        return await self._timed("whole", self._store.whole(id, owner, since))

    async def check(self) -> None:
        await self._timed("check", self._store.check())

    async def sealing_key(self) -> bytes:
        return await self._store.sealing_key()

    async def close(self) -> None:
        await self._store.close()

    async def _timed(self, operation: str, doing: Awaitable[T]) -> T:
        began = time.monotonic()
        has_failed = True
        try:
            result = await doing
            has_failed = False
            return result
        finally:
            self._metrics.observe_store(operation, time.monotonic() - began, has_failed=has_failed)
