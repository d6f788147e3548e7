"""A lane: the creates of one `stream_id` on one socket, first in first out (spec: WebSocket mode)."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.server.parent import PackedParent, Parent
from gateway.wire.json import JSON

# A client that runs a tool is back in this time; one that reads what was written is not.
PACK_SECONDS = 60.0


class Lane:
    """One lane, with the one response that it can continue.

    Args:
        stream_id: None for the default lane.
        answer: serves one frame of this lane to its end.
    """

    def __init__(
        self,
        stream_id: str | None,
        answer: Callable[["Lane", JSON], Coroutine[Any, Any, None]],
    ) -> None:
        self.stream_id = stream_id
        self._latest: Parent | PackedParent | None = None
        self._packing: asyncio.TimerHandle | None = None
        self._answer = answer
        self._waiting: deque[tuple[JSON, int]] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a create runs or waits."""
        return self._task is not None and not self._task.done()

    @property
    def waiting(self) -> int:
        """How many creates wait."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """How large they are together."""
        return sum(size for _, size in self._waiting)

    def add(self, frame: JSON, size: int) -> None:
        """Line a create up."""
        self._waiting.append((frame, size))
        if not self.is_busy:
            self._task = asyncio.create_task(self._work())

    def keep(self, parent: Parent) -> None:
        """The response that can be continued from now on."""
        self._forget()
        self._latest = parent
        loop = asyncio.get_running_loop()
        self._packing = loop.call_later(PACK_SECONDS, self.pack)

    def pack(self) -> None:
        """Nobody has continued for a while: hold no more than must be."""
        if isinstance(self._latest, Parent):
            self._latest = PackedParent.of(self._latest)

    def find(self, id: str) -> Parent | None:
        """The response that this lane can continue, when it has that id."""
        latest = self._latest
        if latest is None or latest.id != id:
            return None
        return latest.unpack() if isinstance(latest, PackedParent) else latest

    def evict(self, id: str | None) -> None:
        """A continuation of that response has failed: it cannot be continued again."""
        if self._latest is not None and self._latest.id == id:
            self._forget()

    def _forget(self) -> None:
        self._latest = None
        if self._packing is not None:
            self._packing.cancel()

    def drop(self) -> None:
        """Forget what waits: nobody would take it."""
        self._waiting.clear()

    def cancel(self) -> list[asyncio.Task[None]]:
        """Drop what waits and cancel what runs; what is left is to be awaited."""
        self.drop()
        self._forget()
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    async def _work(self) -> None:
        while self._waiting:
            frame, _ = self._waiting.popleft()
            await self._answer(self, frame)
