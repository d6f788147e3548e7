"""Responses over HTTP: a blocking JSON body, or the same response as server-sent events."""

from collections.abc import Mapping

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from gateway.server.background import Run
from gateway.server.body import read_json
from gateway.server.delivery import ClientGone
from gateway.server.keys import BACKGROUND, BODY_LIMIT, OWNER, RELAY, REQUEST_ID
from gateway.server.parent import Parent
from gateway.server.relay import Outcome
from gateway.wire.json import JSON, dumps
from gateway.wire.request import check_request
from gateway.wire.sse import encode_event

SSE_HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    # nginx would collect the stream into blocks.
    "X-Accel-Buffering": "no",
}
# An answer that failed after its upstream had begun, and no better status is known.
FAILED_STATUS = 502


async def create_response(request: web.Request) -> web.StreamResponse:
    """`POST /v1/responses`."""
    relay = request.app[RELAY]
    owner = request[OWNER]
    body = check_request(await read_json(request, request[BODY_LIMIT]))
    previous_id = body.get("previous_response_id")
    parent = await relay.stored_parent(previous_id, owner) if previous_id else Parent()
    label = f"{'sse' if body.get('stream') else 'json'} {request[REQUEST_ID]}"
    if body.get("background"):
        run = await request.app[BACKGROUND].start(body, parent, owner=owner, label=label)
        return await follow(request, run, 0) if body.get("stream") else json_response(run.response)
    if not body.get("stream"):
        return _blocking(await relay.serve(body, parent, BLOCKING, owner=owner, label=label))
    sink = _SSESink(request)
    try:
        await relay.serve(body, parent, sink, owner=owner, label=label)
        await sink.response.write_eof()
    except (ClientGone, ConnectionError):
        pass  # nobody is there to be told
    return sink.response


async def follow(request: web.Request, run: Run, number: int) -> web.StreamResponse:
    """The events of a background response from this number on; leaving them does not end it."""
    response = web.StreamResponse(headers=SSE_HEADERS)
    await response.prepare(request)
    try:
        async for events in run.follow(number):
            await response.write(events)
        await response.write_eof()
    except ConnectionError:
        pass  # nobody is there to be told
    return response


def json_response(
    body: JSON, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A JSON body, encoded by the same module as everything else."""
    return web.Response(
        body=dumps(body), status=status, headers=headers, content_type="application/json"
    )


class _End:
    """The sink of a blocking request: nothing leaves before the end."""

    is_live = False

    async def send(self, events: list[JSON]) -> None:
        """The Response at the end says it all."""

    def abort(self) -> None:
        """Nothing is sent, so nothing can be stuck."""


BLOCKING = _End()


class _SSESink:
    """Writes events; the status line goes out with the first ones."""

    is_live = True

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response = web.StreamResponse(headers=SSE_HEADERS)
        self._writer: AbstractStreamWriter | None = None

    async def send(self, events: list[JSON]) -> None:
        if self._writer is None:
            self._writer = await self.response.prepare(self._request)
            assert self._writer is not None  # None is a response that was prepared before
        await self._writer.write(b"".join(map(encode_event, events)))

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


def _blocking(outcome: Outcome) -> web.Response:
    """A failure is a status to those who look at that, and a whole Response to those who read it."""
    if outcome.response["status"] != "failed":
        return json_response(outcome.response)
    error = outcome.error
    if error is None:
        return json_response(outcome.response, FAILED_STATUS)
    body = {**outcome.response, "error": {**error.fields(), **outcome.response["error"]}}
    return json_response(body, max(error.status, 400), error.headers)
