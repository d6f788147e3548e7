"""A lane: the creates of one `stream_id` on one socket, first in first out (spec: WebSocket mode)."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.server.relay import Parent
from gateway.wire.json import JSON


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
        self.latest: Parent | None = None
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

    def find(self, id: str) -> Parent | None:
        """The response that this lane can continue, when it has that id."""
        return self.latest if self.latest is not None and self.latest.id == id else None

    def evict(self, id: str | None) -> None:
        """A continuation of that response has failed: it cannot be continued again."""
        if self.latest is not None and self.latest.id == id:
            self.latest = None

    def drop(self) -> None:
        """Forget what waits: nobody would take it."""
        self._waiting.clear()

    def cancel(self) -> list[asyncio.Task[None]]:
        """Drop what waits and cancel what runs; what is left is to be awaited."""
        self.drop()
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    async def _work(self) -> None:
        while self._waiting:
            frame, _ = self._waiting.popleft()
            await self._answer(self, frame)
