"""How long rows are kept and how much of them, and the task that sees to it beside the turns.

A row goes only when nothing that is kept continues it: conversations are dropped from their ends,
the one first that was not used for longest (docs/decisions/0007-dropping-from-the-end.md).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from gateway.config import MAX_STORE_BYTES
from gateway.store.protocol import StoreError

log = logging.getLogger(__name__)

DAY_SECONDS = 24 * 60 * 60
# The API keeps stored responses for 30 days (responses-api: store).
RETENTION_SECONDS = 30 * 24 * 60 * 60
# How often it is looked for what may go. A day more or less is nothing, a full disk comes fast.
SWEEP_SECONDS = 60.0
# Rows that go in one transaction: a few milliseconds, so that no turn waits for it.
MAX_SWEEP_ROWS = 100
# The size bound leaves alone what was used in this time: a running turn may stand on it.
IN_USE_SECONDS = 60 * 60
# Reading a chain marks it as used, though not more often than this: a mark is a write.
MARK_SECONDS = 10 * 60
# The wall clock moved by more than this against the machine's own: somebody has set it.
CLOCK_STEP_SECONDS = 60.0
# After that nothing expires for so long: whoever set it wrongly has time to notice.
CLOCK_HOLD_SECONDS = 24 * 60 * 60

_UNITS: Final = {"h": 60 * 60, "d": DAY_SECONDS}


class Retention(msgspec.Struct, frozen=True):
    """What may stay.

    Attributes:
        seconds: since it was last used.
        max_bytes: of all rows together.
    """

    seconds: int = RETENTION_SECONDS
    max_bytes: int = MAX_STORE_BYTES


def seconds_of(text: str) -> int:
    """The seconds in `30d` or `12h`."""
    return int(text[:-1]) * _UNITS[text[-1]]


class Cutoff(msgspec.Struct, frozen=True):
    """What may go now.

    Attributes:
        expired_before: rows last used before this have been kept long enough; None: not now.
        spared_since: rows used since then stay even when there are too many.
        max_bytes: more than this is too many.
    """

    expired_before: int | None
    spared_since: int
    max_bytes: int


# Drops one batch and tells how many rows that were.
Drop = Callable[[Cutoff], Awaitable[int]]


class Clock:
    """Wall time, and whether it can be trusted to let rows expire.

    A machine that starts without a clock, or whose clock is set by mistake, must not lose
    everything in the next minute. A clock that is set makes rows live longer, never shorter.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
    ) -> None:
        self.now = now
        self._uptime = uptime or _uptime
        self._offset = self.now() - self._uptime()
        self._held_until = self._uptime()
        self._latest = 0

    def stamp(self) -> int:
        """When a row is used now; never less than the stamp before."""
        self._latest = max(self._latest, int(self.now()))
        return self._latest

    def is_trusted(self) -> bool:
        """Whether it has run evenly for a day, as far as this process knows."""
        offset, uptime = self.now() - self._uptime(), self._uptime()
        if abs(offset - self._offset) > CLOCK_STEP_SECONDS:
            log.warning(
                "the clock moved by %d s: no stored response expires in the next 24 hours",
                offset - self._offset,
            )
            self._held_until = uptime + CLOCK_HOLD_SECONDS
        self._offset = offset
        return uptime >= self._held_until

    def cutoff(self, retention: Retention) -> Cutoff:
        """What may go now."""
        now = int(self.now())
        return Cutoff(
            expired_before=now - retention.seconds if self.is_trusted() else None,
            spared_since=now - IN_USE_SECONDS,
            max_bytes=retention.max_bytes,
        )


def _uptime() -> float:
    """Seconds of this machine, those in sleep included where the system counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Sweeper:
    """Drops what may go, once a minute and a little at a time.

    Args:
        drop: drops one batch of a store.
        retention: what may stay.
        clock: of the store.
    """

    def __init__(self, drop: Drop, retention: Retention, clock: Clock) -> None:
        self._drop = drop
        self._retention = retention
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the loop that runs."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End; a batch that has begun is finished or taken back by the store."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def sweep(self) -> int:
        """Drop all that may go now, and tell how many rows that were."""
        cutoff = self._clock.cutoff(self._retention)
        dropped = 0
        while count := await self._drop(cutoff):
            dropped += count
        return dropped

    async def _run(self) -> None:
        while True:
            try:
                if dropped := await self.sweep():
                    log.info("dropped %d stored responses: too old, or too many", dropped)
            except StoreError as error:  # the next turn says so too, and louder
                log.warning("no sweep: %s", error.reason)
            await asyncio.sleep(SWEEP_SECONDS)
