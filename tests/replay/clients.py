"""The three public transports as one client: send a create request, get the final response.

Every stream that passes here is judged by the stream checker: SSE and JSON answers at once, a
WebSocket as a whole when it is closed.
"""

import json
from types import TracebackType
from typing import Any, Protocol

import aiohttp

from tests.replay.recordings import Exchange
from tests.shared import check_response, check_stream

JSON = dict[str, Any]

TERMINAL = ("response.completed", "response.failed", "response.incomplete", "error")


class Client(Protocol):
    """A transport.

    Attributes:
        keeps_connection: it continues by `previous_response_id` without a store.
    """

    keeps_connection: bool

    async def create(self, request: JSON, exchange: Exchange) -> JSON:
        """The final Response object, or the error event."""
        ...

    async def close(self) -> None: ...


class JSONClient:
    """POST with `stream: false`."""

    keeps_connection = False

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/responses"

    async def create(self, request: JSON, exchange: Exchange) -> JSON:
        body = {**request, "stream": False}
        async with self._session.post(self._url, json=body) as answer:
            response: JSON = await answer.json()
        if answer.status == 200:
            check_response(response, request=body)
        else:
            assert set(response["error"]) == {"message", "type", "param", "code"}, response
            assert exchange.outcome in ("response.failed", "error"), response
        return response

    async def close(self) -> None:
        pass


class SSEClient:
    """POST with `stream: true`."""

    keeps_connection = False

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/responses"

    async def create(self, request: JSON, exchange: Exchange) -> JSON:
        body = {**request, "stream": True}
        async with self._session.post(self._url, json=body) as answer:
            text = await answer.text()
        if answer.status != 200:
            assert exchange.outcome in ("response.failed", "error"), text
            return dict(json.loads(text))
        frames = [_frame(block) for block in text.split("\n\n") if block.strip()]
        check_stream(frames, request=body)
        return dict(frames[-1][1]["response"])

    async def close(self) -> None:
        pass


def _frame(block: str) -> tuple[str, JSON, str]:
    fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
    return "s2c", json.loads(fields["data"]), fields["event"]


class WebSocketClient:
    """One socket for each recorded one, all open until the end."""

    keeps_connection = True

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/responses"
        self._sockets: dict[int, aiohttp.ClientWebSocketResponse] = {}
        self._frames: dict[int, list[tuple[str, JSON]]] = {}

    async def create(self, request: JSON, exchange: Exchange) -> JSON:
        socket = await self._socket(exchange.connection)
        frames = self._frames[exchange.connection]
        frame = {"type": "response.create", **request}
        frames.append(("c2s", frame))
        await socket.send_str(json.dumps(frame))
        while True:
            event: JSON = json.loads(await socket.receive_str())
            frames.append(("s2c", event))
            if event["type"] == "error":
                assert exchange.outcome in ("response.failed", "error"), event
                return event
            if event["type"] in TERMINAL:
                return dict(event["response"])

    async def _socket(self, number: int) -> aiohttp.ClientWebSocketResponse:
        if number not in self._sockets:
            socket = await self._session.ws_connect(self._url, max_msg_size=0)
            self._sockets[number] = socket
            self._frames[number] = []
        return self._sockets[number]

    async def close(self) -> None:
        for number, socket in self._sockets.items():
            await socket.close()
            check_stream(self._frames[number], transport="ws")


CLIENTS: dict[str, type[JSONClient] | type[SSEClient] | type[WebSocketClient]] = {
    "json": JSONClient,
    "sse": SSEClient,
    "ws": WebSocketClient,
}


class Connected:
    """`async with Connected("ws", url) as client`."""

    def __init__(self, transport: str, url: str) -> None:
        self._transport = transport
        self._url = url

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession()
        self._client = CLIENTS[self._transport](self._session, self._url)
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self._client.close()
        finally:
            await self._session.close()
