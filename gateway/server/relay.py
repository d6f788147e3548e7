"""The loop: one checked request becomes one turn, its upstream is read, its events leave by a sink.

All three transports come through here; what differs between them is the sink. This is the place
where the pure rooms meet time: silence, heartbeats, a client that has gone.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

import msgspec

from gateway.errors import GatewayError, InternalError, RequestError, UpstreamError
from gateway.server.delivery import ClientGone, Delivery, Sink
from gateway.server.facts import Report, facts_of, log_turn, turn_ids
from gateway.server.formats import Formats
from gateway.server.logs import TURN_IDS
from gateway.server.parent import Parent, row_of
from gateway.server.parents import Parents
from gateway.server.target import Target, Targets
from gateway.server.watching import Watchers, Watching
from gateway.store.health import StoreHealth
from gateway.store.protocol import Store, StoreError
from gateway.store.sealing import KeySealer
from gateway.turn.compaction import NO_SEALER, Sealer
from gateway.turn.state import TurnState
from gateway.turn.turn import Turn
from gateway.upstream.client import Answer
from gateway.wire.json import JSON

log = logging.getLogger(__name__)

# Fields that would change what the client gets and that nothing here can honour; what can be done instead.
UNSUPPORTED = {
    "background": " over WebSocket. Use POST /v1/responses.",
    "conversation": " by this gateway. Continue with previous_response_id.",
    "prompt": " by this gateway. Send its text in 'instructions' and 'input'.",
}

_CONTINUABLE = (TurnState.COMPLETED, TurnState.INCOMPLETE)


class Outcome(msgspec.Struct, frozen=True):
    """How a turn has ended, for a transport that answers at the end."""

    response: JSON
    error: GatewayError | None


Remember = Callable[[Parent | None], None]
Begun = Callable[[Turn], Awaitable[None]]
# From an owner to what holds a place for one of its turns; entering it may raise a 429.
Admit = Callable[[str], AbstractContextManager[None]]


class Relay:
    """Serves requests.

    Args:
        targets: the model server.
        store: what outlives a turn.
        heartbeat_seconds: a live stream is never silent for longer.
        created_after_seconds: a live stream begins after so long, come what may.
        admit: bounds the turns of one owner.
        report: is told of each turn when it has ended.
    """

    def __init__(
        self,
        targets: Targets,
        store: Store,
        *,
        heartbeat_seconds: float,
        created_after_seconds: float,
        admit: Admit = lambda owner: nullcontext(),
        report: Report = log_turn,
    ) -> None:
        self._targets = targets
        self._store = store
        self.store_health = StoreHealth(store)
        self.parents = Parents(store)
        self._heartbeat = heartbeat_seconds
        self._created_after = created_after_seconds
        self._admit = admit
        self._report = report
        self.watchers = Watchers()
        self._draining: set[asyncio.Task[None]] = set()
        self._sealer: Sealer | None = None
        self._formats = Formats()

    async def stored_parent(self, id: str, owner: str) -> Parent:
        """The stored response that a request continues.

        Raises:
            RequestError: `previous_response_not_found`.
        """
        return await self.parents.find(id, owner)

    async def serve(
        self,
        request: JSON,
        parent: Parent,
        sink: Sink,
        *,
        owner: str,
        label: str,
        remember: Remember | None = None,
        begun: Begun | None = None,
    ) -> Outcome:
        """Answer one request.

        Args:
            request: the checked public request.
            parent: what it continues.
            sink: where its events go.
            owner: the API key's id.
            label: transport and id of the connection, for the log.
            remember: is told what can be continued (None: nothing), before the client knows. Without it
                a stored response is kept ready for whoever comes with its id.
            begun: is told of the turn before it runs. With it the turn runs in the background.

        Raises:
            GatewayError: it failed before anything was sent; afterwards it never raises one.
            ClientGone: nobody listens any more. The upstream has been stopped.
        """
        ids = TURN_IDS.set(turn_ids(label, request))
        try:
            with self.watchers.begin(request, parent.history, label) as watch, self._admit(owner):
                return await self._serve(
                    request, parent, sink, owner, label, remember, begun, watch
                )
        finally:
            TURN_IDS.reset(ids)

    async def _serve(
        self,
        request: JSON,
        parent: Parent,
        sink: Sink,
        owner: str,
        label: str,
        remember: Remember | None,
        begun: Begun | None,
        watch: Watching,
    ) -> Outcome:
        began = time.monotonic()
        _refuse_unsupported(request, in_background=begun is not None)
        target = await self._targets.current()
        await self._formats.ready(request, target.tool_options)
        turn = _new_turn(request, parent, target, await self._sealing(), watch)
        watch.made(turn, target)
        delivery = Delivery(turn, sink, self._heartbeat, watch)
        try:
            if begun is not None:
                await begun(turn)
            await self._run(request, turn, target, delivery)
            kept = await self._keep(request, turn, parent, owner)
            if remember is not None:
                remember(kept)
            elif kept is not None and kept.is_stored:
                self.parents.keep(kept, owner)
            await delivery.flush()
        except (asyncio.CancelledError, ClientGone):
            turn.cancel()
            raise
        finally:
            delivery.stop()
            first = delivery.heard_at
            self._report(
                facts_of(
                    turn,
                    transport=label.partition(" ")[0],
                    upstream=target.host,
                    seconds=time.monotonic() - began,
                    first_event_seconds=None if first is None else first - began,
                )
            )
        return Outcome(turn.response, turn.error)

    async def _sealing(self) -> Sealer:
        """What opens and makes compaction items; a store that is away costs these, not the turn."""
        if self._sealer is None:
            try:
                keyed = KeySealer(await self._store.sealing_key())
            except StoreError as error:
                log.warning("no key for compaction: %s", error)
                return NO_SEALER
            self._sealer = Sealer(seal=keyed.seal, unseal=keyed.unseal)
        return self._sealer

    async def _run(self, request: JSON, turn: Turn, target: Target, delivery: Delivery) -> None:
        """Bring the turn to its end. Its last events are not sent yet."""
        if is_warm_up(request):
            turn.warm_up()
            return
        try:
            await self._ask(turn, target, delivery)
        except ClientGone:
            raise
        except Exception as cause:  # a bug of ours ends one turn, never the gateway
            error = public_error(cause)
            turn.fail(error)
            if not turn.is_started:
                raise error from None

    async def _ask(self, turn: Turn, target: Target, delivery: Delivery) -> None:
        turn.send()
        while True:
            try:
                await self._ask_once(turn, target, delivery)
            except UpstreamError as error:
                # A history that is too long even for its summary: once more with a part of it.
                if error.code != "context_length_exceeded" or not turn.shorten():
                    raise
                continue
            if not turn.goes_on:
                return

    async def _ask_once(self, turn: Turn, target: Target, delivery: Delivery) -> None:
        body = target.dialect.encode(turn.request_to_send())
        async with target.slot():
            opening = asyncio.ensure_future(target.ask(turn, body, delivery.watch))
            try:
                await self._until_open(opening, turn, delivery)
                answer = await opening
                turn.start()
                await delivery.flush()
                # A task of its own: each event wakes its few frames instead of all those of the request.
                await asyncio.create_task(_read(answer, turn, target, delivery))
            finally:
                await self._let_go(opening, turn)

    async def _until_open(
        self, opening: asyncio.Future[Answer], turn: Turn, delivery: Delivery
    ) -> None:
        """A silence that lasts too long begins the stream; until then an error can be a status."""
        patience = self._created_after if delivery.is_live else None
        done, _ = await asyncio.wait({opening}, timeout=patience)
        if not done:
            turn.start()
            await delivery.flush()

    async def _let_go(self, opening: asyncio.Future[Answer], turn: Turn) -> None:
        """Stop the upstream at once, unless it has said all and only its body's end is missing."""
        if not opening.done():
            opening.cancel()
            await asyncio.wait({opening})
        if opening.cancelled() or opening.exception() is not None:
            return
        answer = opening.result()
        if turn.state in _CONTINUABLE or turn.goes_on:
            task = asyncio.create_task(answer.drain())
            self._draining.add(task)
            task.add_done_callback(self._draining.discard)
        else:
            answer.close()

    async def _keep(self, request: JSON, turn: Turn, parent: Parent, owner: str) -> Parent | None:
        """Put a response where it can be continued from; None when it cannot be."""
        if turn.state not in _CONTINUABLE:
            return None
        is_stored = request.get("store") is not False
        following = parent.next(turn, is_stored=is_stored)
        if is_stored and not await self.store_health.keep(
            row_of(turn, parent, following.history, owner)
        ):
            turn.not_stored()
            return msgspec.structs.replace(following, is_stored=False)
        return following

    async def close(self) -> None:
        """Let go of connections and of the store."""
        for task in list(self._draining):
            task.cancel()
        await asyncio.gather(*self._draining, return_exceptions=True)
        await self._targets.close()
        await self._store.close()


async def _read(answer: Answer, turn: Turn, target: Target, delivery: Delivery) -> None:
    """Upstream's bytes into the turn; the events of one chunk leave together."""
    reader = target.dialect.reader(answer.content_type)
    try:
        while chunk := await answer.chunk():
            if delivery.heard_at is None:
                delivery.hear()
            delivery.watch.received(chunk)
            for event in reader.feed(chunk):
                turn.receive(event)
            if turn.is_done or turn.goes_on:
                return
            await delivery.flush()
        for event in reader.finish():
            turn.receive(event)
        turn.receive_eof()
    finally:
        answer.end()
        turn.notes += reader.notes


def is_warm_up(request: JSON) -> bool:
    """Whether nothing is to be generated (spec: WebSocket mode, `generate: false`)."""
    cache = request.get("prompt_cache_options")
    prewarm = isinstance(cache, dict) and cache.get("prewarm") is True
    return request.get("generate") is False or prewarm


def new_id(prefix: str) -> str:
    """An id that nobody can guess: a stored response is read by its id."""
    return f"{prefix}_{secrets.token_hex(16)}"


def _now() -> int:
    return int(time.time())


def _new_turn(
    request: JSON, parent: Parent, target: Target, sealer: Sealer, watch: Watching
) -> Turn:
    options = msgspec.structs.replace(target.turn_options(request["model"]), sealer=sealer)
    try:
        return watch.new_turn(request, parent.history, options, new_id, _now)
    except Exception as cause:  # a bug of ours ends one turn, never the gateway
        raise public_error(cause) from None


def _refuse_unsupported(request: JSON, *, in_background: bool) -> None:
    for name, hint in UNSUPPORTED.items():
        if request.get(name) and not (in_background and name == "background"):
            raise RequestError(
                f"Unsupported parameter: '{name}' is not supported{hint}",
                code="unsupported_parameter",
                param=name,
            )


def public_error(cause: Exception) -> GatewayError:
    """What the client is told: its own or the upstream's error as it is, of a bug only an id."""
    if isinstance(cause, GatewayError) and not isinstance(cause, InternalError):
        return cause
    error_id = new_id("err")
    log.error("internal error %s", error_id, exc_info=cause)
    return InternalError(f"Internal error. The gateway's log has it as {error_id}.")
