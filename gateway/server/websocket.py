"""Responses over WebSocket: `response.create` frames in, events out, state kept with the socket.

One reader is always in `receive()` (it answers pings and sees the client go); each lane has a worker
of its own. A request that fails before its `response.created` gets exactly one error frame; after it
only `response.failed` (responses-api: a second terminal would end the client's next turn).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from gateway.errors import GatewayError, RequestError
from gateway.server.body import parse
from gateway.server.delivery import ClientGone
from gateway.server.facts import log_refusal
from gateway.server.frames import (
    MAX_NAMED_LANES,
    connection_limit,
    inject_failed,
    steer_failed,
    too_many_lanes,
    too_many_waiting,
)
from gateway.server.keys import BODY_LIMIT, CONNECTIONS, OWNER, RELAY, REQUEST_ID, SETTINGS
from gateway.server.lane import Lane
from gateway.server.parent import Parent
from gateway.server.relay import Relay, public_error
from gateway.server.text_socket import CLOSE_SECONDS, TextSocket
from gateway.wire.json import JSON, dumps
from gateway.wire.request import check_request, check_stream_id

log = logging.getLogger(__name__)

# The API's own limits (guide: WebSocket mode).
MAX_IN_FLIGHT = 16
# Creates that wait on one socket. More is a client that does not listen.
MAX_WAITING = 256
# …and what they may hold together, in messages of the largest size.
MAX_WAITING_MESSAGES = 4
# The envelope of a frame, and what has no meaning on a socket.
_ENVELOPE = ("type", "stream_id", "stream", "stream_options")


async def open_socket(request: web.Request) -> web.StreamResponse:
    """`GET /v1/responses` with an upgrade."""
    settings = request.app[SETTINGS]
    max_bytes = min(settings.max_message_bytes, request[BODY_LIMIT])
    socket = TextSocket(max_bytes, compress=settings.compress)
    if not socket.can_prepare(request):
        raise RequestError(
            "GET /v1/responses opens a WebSocket; send POST /v1/responses for HTTP.",
            status=426,
            headers={"Upgrade": "websocket"},
        )
    # Codex 0.171 takes a larger request over HTTP by itself when it knows the limit.
    socket.headers["x-codex-websocket-max-message-bytes"] = str(max_bytes)
    await socket.prepare(request)
    connection = Connection(
        socket,
        request.app[RELAY],
        owner=request[OWNER],
        label=f"ws {request[REQUEST_ID]}",
        max_message_bytes=max_bytes,
    )
    connections = request.app[CONNECTIONS]
    connections.add(connection)
    try:
        await connection.run(settings.connection_limit_minutes * 60)
    finally:
        connections.discard(connection)
        connection.ended.set()
    return socket


async def leave(connections: "set[Connection]", seconds: float) -> None:
    """At shutdown: idle sockets close now, busy ones after their turns, all of them in this time."""
    for connection in connections:
        connection.leave(seconds)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds + CLOSE_SECONDS):
            for connection in list(connections):
                await connection.ended.wait()


class Connection:
    """One socket with its lanes.

    Args:
        socket: prepared.
        relay: serves the requests.
        owner: the API key's id.
        label: names the connection in the log.
        max_message_bytes: the largest message.
    """

    def __init__(
        self,
        socket: TextSocket,
        relay: Relay,
        *,
        owner: str,
        label: str,
        max_message_bytes: int,
    ) -> None:
        self._socket = socket
        self._relay = relay
        self._owner = owner
        self._label = label
        self._max_waiting_bytes = max_message_bytes * MAX_WAITING_MESSAGES
        self._lanes: dict[str | None, Lane] = {None: Lane(None, self._answer)}
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)
        # Set once the connection is to end as soon as no lane is busy: what a new create is told.
        self._refusal: GatewayError | None = None
        self._closing: asyncio.Task[None] | None = None
        # The one of the connection limit; SDKs connect again after it (openai 3.57).
        self._close_code = WSCloseCode.GOING_AWAY
        self._timers: list[asyncio.TimerHandle] = []
        # Set when nothing of it runs any more.
        self.ended = asyncio.Event()

    @property
    def lanes(self) -> int:
        """How many lanes it has, the default one included."""
        return len(self._lanes)

    async def run(self, limit_seconds: float) -> None:
        """Serve the socket until either side closes it. 0 is no limit."""
        timer = asyncio.create_task(self._expire(limit_seconds)) if limit_seconds else None
        try:
            async for message in self._socket:
                if message.type is WSMsgType.TEXT:
                    await self._receive(message.data)
                elif message.type is WSMsgType.BINARY:
                    await self._fail(RequestError("Binary frames are not supported: send text."))
        except ConnectionError:
            pass  # gone while it was told about an error
        finally:
            if timer is not None:
                timer.cancel()
            for late in self._timers:
                late.cancel()
            left = [task for lane in self._lanes.values() for task in lane.cancel()]
            if self._closing is not None:
                left.append(self._closing)
            await asyncio.gather(*left, return_exceptions=True)
            log.debug("%s closed with code %s", self._label, self._socket.close_code)

    def leave(self, seconds: float) -> None:
        """The gateway stops: close now, or after the turns that run, or when they had their time."""
        self._refusal = GatewayError("The gateway is shutting down.", status=503)
        # SDKs connect again after 1012 (openai 3.57), and it says that somebody will be there.
        self._close_code = WSCloseCode.SERVICE_RESTART
        self._end_when_idle()
        if self._closing is None:
            self._timers.append(asyncio.get_running_loop().call_later(seconds, self._cut))

    def _cut(self) -> None:
        """The turns that run had their time."""
        if self._closing is None:
            reason = self._refusal or GatewayError("The gateway is shutting down.", status=503)
            for lane in self._lanes.values():
                lane.cancel()
            self._closing = asyncio.create_task(self._close(reason))

    async def _expire(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.expire(seconds)

    def expire(self, seconds: float) -> None:
        """The connection has been open for so long: it ends with the turns that run."""
        self._refusal = connection_limit(seconds)
        self._end_when_idle()

    def _end_when_idle(self, but: Lane | None = None) -> None:
        """Close if that is due. `but` is the lane whose last create is just ending."""
        if self._refusal is None or self._closing is not None:
            return
        lanes = self._lanes.values()
        if not any(lane.is_busy and (lane is not but or lane.waiting) for lane in lanes):
            self._closing = asyncio.create_task(self._close(self._refusal))

    async def _close(self, reason: GatewayError) -> None:
        await self._fail(reason)
        await self._socket.close(code=self._close_code)

    async def _receive(self, data: bytes) -> None:
        """One text frame. What is wrong with it costs one error frame, never the socket."""
        try:
            frame = parse(data)
            if not isinstance(frame, dict):
                raise RequestError("A frame must be a JSON object.")
            await self._handler(frame)(self, frame, len(data))
        except GatewayError as error:
            await self._fail(error)

    def _handler(self, frame: JSON) -> "_Handler":
        kind = frame.get("type")
        if not isinstance(kind, str):
            raise RequestError(
                "Missing required parameter: 'type'.",
                code="missing_required_parameter",
                param="type",
            )
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise RequestError(
                f"Invalid value: '{kind[:100]}'. Supported values are: "
                "'response.create' and 'response.steer'.",
                code="invalid_value",
                param="type",
            )
        return handler

    async def _create(self, frame: JSON, size: int) -> None:
        stream_id = check_stream_id(frame)
        if self._refusal is not None:
            # The documented error of the connection limit names no lane.
            await self._fail(self._refusal, None if self._refusal.code else stream_id)
            return
        lane = self._lanes.get(stream_id)
        if lane is None:
            if len(self._lanes) > MAX_NAMED_LANES:
                await self._fail(too_many_lanes(), stream_id)
                return
            lane = self._lanes[stream_id] = Lane(stream_id, self._answer)
        if not self._has_room(size):
            await self._fail(too_many_waiting(), stream_id)
            return
        lane.add(frame, size)

    def _has_room(self, size: int) -> bool:
        lanes = self._lanes.values()
        waiting = sum(lane.waiting for lane in lanes)
        held = sum(lane.waiting_bytes for lane in lanes)
        return waiting < MAX_WAITING and held + size <= self._max_waiting_bytes

    async def _steer(self, frame: JSON, size: int) -> None:
        await self._send(steer_failed(frame))

    async def _inject(self, frame: JSON, size: int) -> None:
        await self._send(inject_failed(frame))

    async def _ignore(self, frame: JSON, size: int) -> None:
        """A notice that wants no answer."""

    async def _answer(self, lane: Lane, frame: JSON) -> None:
        """One create, from its turn in the lane to its last event."""
        try:
            async with self._in_flight:
                await self._serve(lane, frame)
        except (ClientGone, ConnectionError):
            lane.drop()  # the reader ends the connection
            return
        except Exception as cause:  # a bug of ours must not leave the client waiting
            error = cause if isinstance(cause, GatewayError) else public_error(cause)
            lane.evict(frame.get("previous_response_id"))
            await self._fail(error, lane.stream_id)
        self._end_when_idle(but=lane)

    async def _serve(self, lane: Lane, frame: JSON) -> None:
        body = {key: value for key, value in frame.items() if key not in _ENVELOPE}
        request = check_request({**body, "stream": True})
        previous_id = request.get("previous_response_id")

        def remember(parent: Parent | None) -> None:
            if parent is not None:
                lane.keep(parent)
            else:
                lane.evict(previous_id)

        await self._relay.serve(
            request,
            await self._parent(lane, previous_id) if previous_id else Parent(),
            _SocketSink(self._socket, lane.stream_id),
            owner=self._owner,
            label=self._label,
            remember=remember,
        )

    async def _parent(self, lane: Lane, id: str) -> Parent:
        """What is continued: of this lane, of another one (a fork), or out of the store."""
        for candidate in (lane, *self._lanes.values()):
            if parent := candidate.find(id):
                return parent
        return await self._relay.stored_parent(id, self._owner)

    async def _fail(self, error: GatewayError, stream_id: str | None = None) -> None:
        log_refusal(error, self._label.partition(" ")[2])
        try:
            await self._send(error.frame(stream_id))
        except ConnectionError:
            log.debug("%s went before it was told: %s", self._label, error)

    async def _send(self, frame: JSON) -> None:
        await self._socket.send_frame(dumps(frame), WSMsgType.TEXT)


class _SocketSink:
    """Each event a text frame; awaiting the write is the back-pressure."""

    is_live = True

    def __init__(self, socket: TextSocket, stream_id: str | None) -> None:
        self._socket = socket
        self._stream_id = stream_id

    async def send(self, events: list[JSON]) -> None:
        if self._stream_id is not None:
            events = [{**event, "stream_id": self._stream_id} for event in events]
        await self._socket.send_texts(list(map(dumps, events)))

    def abort(self) -> None:
        self._socket.abort()


_Handler = Callable[[Connection, JSON, int], Coroutine[Any, Any, None]]

# Client events (openai 3.57). `response.processed` is a notice of older Codex versions.
_HANDLERS: dict[str, _Handler] = {
    "response.create": Connection._create,
    "response.steer": Connection._steer,
    "response.inject": Connection._inject,
    "response.processed": Connection._ignore,
}
