"""What one turn has to say, on its way to the client: in order, and never silent for long."""

import asyncio
import time
from contextlib import suppress
from typing import Protocol

from gateway.server.watching import NOBODY, Watching
from gateway.turn.turn import Turn
from gateway.wire.json import JSON

# A client that takes nothing for so long is stopped or gone; its answer must not hold a model.
SEND_SECONDS = 300.0


class ClientGone(Exception):
    """The client has closed its connection, or takes nothing any more."""


class Sink(Protocol):
    """Where public events go."""

    is_live: bool
    """Events leave as they come. Otherwise only the end counts, and an error can be a status."""

    async def send(self, events: list[JSON]) -> None:
        """Write them, in as few writes as the transport allows.

        Raises:
            ConnectionError: the client is gone.
        """

    def abort(self) -> None:
        """Break the client's connection off: it takes nothing any more."""


class Delivery:
    """Carries a turn's events to its sink.

    Args:
        turn: whose events.
        sink: where they go.
        heartbeat_seconds: a live sink is never silent for longer once it has begun.
        watch: sees what leaves.
    """

    def __init__(
        self, turn: Turn, sink: Sink, heartbeat_seconds: float, watch: Watching = NOBODY
    ) -> None:
        self._turn = turn
        self._sink = sink
        self.watch = watch
        self._period = heartbeat_seconds
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        # Of this loop and the heartbeat one sends at a time. (A lock is three coroutines an event.)
        self._is_sending = False
        self._waiter: asyncio.Future[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self.is_live = sink.is_live
        # When the model server's first bytes came (`time.monotonic`).
        self.heard_at: float | None = None

    def hear(self) -> None:
        """The model server has said its first word."""
        self.heard_at = time.monotonic()

    async def flush(self) -> None:
        """Send what is ready; returns when the transport has room again (back-pressure)."""
        if self._is_sending:  # a heartbeat is on its way; it never waits itself
            self._waiter = self._loop.create_future()
            await self._waiter
        events = self._turn.events_to_send()
        if not events:
            return
        self._sent_at = self._loop.time()
        if self._beating is None and self.is_live and not self._turn.is_done:
            self._beating = self._loop.create_task(self._beat())
        self.watch.sent(events)
        self._is_sending = True
        try:
            await self._sink.send(events)
        except ConnectionError as error:
            raise ClientGone from error
        finally:
            self._is_sending = False
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
        self._sent_at = self._loop.time()

    def stop(self) -> None:
        """No more heartbeats."""
        if self._beating is not None:
            self._beating.cancel()

    async def _beat(self) -> None:
        with suppress(ClientGone):  # the loop sees it as well, at its next event
            while not self._turn.is_done:
                silence = self._loop.time() - self._sent_at
                if silence < self._period:
                    await asyncio.sleep(self._period - silence)
                elif not self._is_sending:
                    self._turn.heartbeat()
                    await self.flush()
                elif silence < SEND_SECONDS:
                    await asyncio.sleep(self._period)  # not silent: the client is slow
                else:
                    self._sink.abort()  # what waits to be sent fails now; a timer a send would cost more than the send
                    return
