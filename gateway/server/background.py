"""Background responses: turns that run without a client, and the logs by which clients follow them.

A run is the relay's own loop with a log in the place of a connection. It belongs to the process that has
taken the request; others see it through the store, before and after, and can neither follow nor cancel it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator

from gateway.errors import GatewayError, RequestError
from gateway.server.parent import Parent, unfinished_row
from gateway.server.relay import Relay
from gateway.store.protocol import Store, StoreError
from gateway.turn.turn import Turn
from gateway.wire.json import JSON
from gateway.wire.sse import encode_event

log = logging.getLogger(__name__)

# Runs at once in one process: each holds an upstream connection and a log.
MAX_RUNS = 64
# Logs of runs that have ended, kept for those who come late.
MAX_ENDED_RUNS = 256
# One log; a longer one forgets its beginning. An answer of 100k tokens has about 20 MB of events.
MAX_LOG_BYTES = 32 * 1024 * 1024
# Logs of ended runs together.
MAX_ENDED_BYTES = 128 * 1024 * 1024
# A run is cut after a day. A response that is older and not at its end has lost its process.
MAX_RUN_SECONDS = 86_400


class Run:
    """One background response, and the sink of its events.

    Args:
        owner: the API key's id.
    """

    is_live = True

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.bytes = 0
        self.is_over = False
        self.task: asyncio.Task[None] | None = None
        # Set when it can be read by its id.
        self.begun: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._events: deque[bytes] = deque()
        self._first = 0  # sequence number of the oldest event that is kept
        self._changed = asyncio.Event()

    @property
    def turn(self) -> Turn:
        """The turn that runs."""
        return self.begun.result()

    @property
    def response(self) -> JSON:
        """The Response as far as it has come."""
        if self.turn.is_done:
            return self.turn.response
        return {**self.turn.response, "output": list(self.turn.output)}

    async def send(self, events: list[JSON]) -> None:
        """Keep them, in the form in which they will leave."""
        for event in events:
            data = encode_event(event)
            self._events.append(data)
            self.bytes += len(data)
        while self.bytes > MAX_LOG_BYTES and len(self._events) > 1:
            self.bytes -= len(self._events.popleft())
            self._first += 1
        self._wake()

    def abort(self) -> None:
        """A log is never slow."""

    def close(self) -> None:
        """Nothing more will come."""
        self.is_over = True
        self._wake()

    def has(self, number: int) -> bool:
        """Whether the log still holds all events from this number on."""
        return number >= self._first

    async def follow(self, number: int) -> AsyncIterator[bytes]:
        """The events from this number on, until the end, in as few pieces as there are."""
        while self.has(number):
            changed = self._changed
            ready = list(self._events)[number - self._first :]
            if ready:
                number += len(ready)
                yield b"".join(ready)
            elif self.is_over:
                return
            else:
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Background:
    """The runs of this process.

    Args:
        relay: runs them.
        store: has them, under their ids, from their first moment.
    """

    def __init__(self, relay: Relay, store: Store) -> None:
        self._relay = relay
        self._store = store
        self._runs: dict[str, Run] = {}

    async def start(self, request: JSON, parent: Parent, *, owner: str, label: str) -> Run:
        """Run a turn that nobody waits for. It can be read by its id when this returns.

        Raises:
            GatewayError: it cannot be served, too many run already, or the store does not keep it.
        """
        if request.get("store") is False:
            raise RequestError(
                "Background responses must be stored: 'store' cannot be false with 'background'.",
                param="store",
            )
        if sum(not run.is_over for run in self._runs.values()) >= MAX_RUNS:
            raise RequestError(
                "Too many background responses run at the moment. Try again later.",
                status=429,
                code="rate_limit_exceeded",
            )
        run = Run(owner)
        # Whether or not this client follows it: who polls sees how far it has come.
        request = {**request, "stream": True}
        run.task = asyncio.create_task(self._work(run, request, parent, label))
        # The caller may go, the run may not.
        await asyncio.shield(run.begun)
        return run

    def find(self, id: str, owner: str) -> Run | None:
        """The run of this owner with that id, while its log is kept."""
        run = self._runs.get(id)
        return run if run is not None and run.owner == owner else None

    async def cancel(self, run: Run) -> None:
        """End a run now; one that has ended stays as it is."""
        if run.task is not None and not run.task.done():
            run.task.cancel()
            await asyncio.wait({run.task})

    async def forget(self, run: Run) -> None:
        """The response has been deleted."""
        await self.cancel(run)
        self._runs.pop(run.turn.response["id"], None)

    async def close(self, seconds: float) -> None:
        """At shutdown: what runs may end in this time, and is a failure then."""
        running = {run.task: run for run in self._runs.values() if run.task and not run.is_over}
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=seconds)
        for task in late:
            running[task].turn.fail(
                GatewayError("The gateway was shut down before the response was complete.")
            )
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _work(self, run: Run, request: JSON, parent: Parent, label: str) -> None:
        async def begun(turn: Turn) -> None:
            turn.queue()
            await self._store.put(unfinished_row(turn, run.owner))
            await run.send(turn.events_to_send())
            self._runs[turn.response["id"]] = run
            run.begun.set_result(turn)

        serve = self._relay.serve(request, parent, run, owner=run.owner, label=label, begun=begun)
        try:
            async with asyncio.timeout(MAX_RUN_SECONDS):
                await serve
        except (asyncio.CancelledError, TimeoutError):
            log.info("%s ended from outside", label)
        except Exception as error:  # the caller's to say, who waits for `begun`
            if run.begun.done():
                raise
            run.begun.set_exception(error)
            return
        finally:
            if run.begun.done() and run.begun.exception() is None:
                await self._end(run)

    async def _end(self, run: Run) -> None:
        """What has no good end is kept as well: somebody will ask."""
        await run.send(run.turn.events_to_send())
        if run.turn.response["status"] not in ("completed", "incomplete"):
            try:
                await self._store.put(unfinished_row(run.turn, run.owner))
            except StoreError as error:
                log.error("the end of %s is not stored: %s", run.turn.response["id"], error.reason)
        run.close()
        self._trim()

    def _trim(self) -> None:
        ended = [id for id, run in self._runs.items() if run.is_over]
        size = sum(self._runs[id].bytes for id in ended)
        while len(ended) > MAX_ENDED_RUNS or size > MAX_ENDED_BYTES:
            size -= self._runs.pop(ended.pop(0)).bytes
