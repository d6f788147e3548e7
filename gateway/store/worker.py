"""A thread that does one piece of work after another; what waits at once is handed over at once.

That is what makes a group commit: while one batch waits for the disk the next one gathers.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")

# Bounds how long one transaction takes; a batch that waits for one fsync is rarely larger.
MAX_BATCH = 64


class Job(Generic[R]):
    """One piece of work on a resource R, and how it has ended."""

    def __init__(self, work: Callable[[R], Any], future: "asyncio.Future[Any] | None") -> None:
        self.work = work
        self.result: Any = None
        self.error: Exception | None = None
        self._future = future

    def settle(self) -> None:
        """Tell whoever waits; nobody may, when its client has gone."""
        if self._future is None or self._future.done():
            return
        if self.error is not None:
            self._future.set_exception(self.error)
        else:
            self._future.set_result(self.result)


class Worker(Generic[R]):
    """The thread.

    Args:
        name: of the thread.
        serve: does the jobs of one batch; it sets the result or the error of each, and never raises.
        leave: is called last, in the thread.
    """

    def __init__(
        self, name: str, serve: Callable[[list[Job[R]]], None], leave: Callable[[], None]
    ) -> None:
        self._serve = serve
        self._leave = leave
        self._is_stopped = False
        self._waiting: queue.SimpleQueue[Job[R] | None] = queue.SimpleQueue()
        # A daemon: what is not committed was not promised, so a process may end without it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; in the loop that will ask."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def do(self, work: Callable[[R], T]) -> T:
        """Have it done, and wait for its end."""
        if self._is_stopped:
            raise RuntimeError("the worker has ended")
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.put(Job(work, future))
        return await future

    def post(self, work: Callable[[R], Any]) -> None:
        """Have it done at some time; how it ends is nobody's concern."""
        self._waiting.put(Job(work, None))

    async def stop(self) -> None:
        """Do what waits, and end."""
        self._is_stopped = True
        if self._thread.is_alive():
            self._waiting.put(None)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            batch, is_ending = self._next_batch()
            if batch:
                self._serve(batch)
                with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
                    self._loop.call_soon_threadsafe(_settle, batch)
        self._leave()

    def _next_batch(self) -> tuple[list[Job[R]], bool]:
        batch: list[Job[R]] = []
        job = self._waiting.get()
        while job is not None:
            batch.append(job)
            if len(batch) == MAX_BATCH:
                return batch, False
            try:
                job = self._waiting.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True


def _settle(batch: list[Job[Any]]) -> None:
    for job in batch:
        job.settle()
