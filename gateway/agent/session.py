"""The client's side of the gateway: pages, HTTP streams and WebSocket turns, with the time of each event.

It knows no tool and judges nothing. The upstream side has a client of its own (`upstream/client.py`):
what is asked there, and how failures are told, differs in everything but the library.
"""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp

from gateway import __version__
from gateway.wire.json import JSON, MalformedJSON, dumps, dumps_str, loads
from gateway.wire.sse import SSEDecoder

# A gateway on this machine or in this network; a turn has no limit but its own.
CONNECT_SECONDS = 5.0
# Health and models: the gateway may ask its upstream for them, in 5 s and two questions.
PAGE_SECONDS = 15.0
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


class Unreachable(Exception):
    """Nothing came back. `status` is that of a refused WebSocket, 0 when there was no HTTP at all."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Page:
    """An answer that is read whole. `body` is None when it is not JSON."""

    status: int
    headers: dict[str, str]
    body: Any
    text: str


@dataclass
class Outcome:
    """What came of a turn.

    Attributes:
        status: of HTTP or of an error frame; 0 when it broke off or took too long.
        events: (seconds since it was asked, event) in order.
        response: the final response, {} when there is none.
        error: the error, wherever it stood, {} when there is none.
        headers: of the HTTP answer, by lower-case names.
    """

    status: int = 0
    events: list[tuple[float, JSON]] = field(default_factory=list)
    response: JSON = field(default_factory=dict)
    error: JSON = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> list[JSON]:
        return [item for item in self.response.get("output") or [] if isinstance(item, dict)]

    @property
    def text(self) -> str:
        """All text of the answer."""
        parts = [
            p for item in self.output if item.get("type") == "message" for p in item["content"]
        ]
        return "".join(part.get("text", "") for part in parts)

    @property
    def usage(self) -> JSON:
        return self.response.get("usage") or {}

    def times(self, kind: str) -> list[float]:
        """When the events of one type came."""
        return [at for at, event in self.events if event.get("type") == kind]

    def take(self, at: float, event: JSON) -> bool:
        """Note an event; whether it was the last one."""
        self.events.append((at, event))
        if event.get("type") not in _ENDS:
            return False
        self.response = event.get("response") or {}
        self.error = self.response.get("error") or event.get("error") or {}
        self.status = event.get("status", 400) if event["type"] == "error" else 200
        return True

    def fail(self, code: str, message: str) -> Self:
        self.error = {"code": code, "message": message}
        return self


class Agent:
    """One client of one gateway.

    Args:
        url: the gateway, ending in /v1.
        key: its API key; "" for none.
        seconds: how long one turn may take.
    """

    def __init__(self, url: str, key: str = "", *, seconds: float) -> None:
        self.url = url
        self.root = url.removesuffix("/v1")
        self._seconds = seconds
        self._headers = {"User-Agent": f"responses-gateway-agent/{__version__}"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._open_session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open_session is not None:
            await self._open_session.close()

    async def get(self, url: str) -> Page:
        """GET a whole URL.

        Raises:
            Unreachable: no answer.
        """
        try:
            async with (
                asyncio.timeout(PAGE_SECONDS),
                self._session().get(url, allow_redirects=False) as answer,
            ):
                text = (await answer.read()).decode("utf-8", "replace")
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Page(answer.status, headers, _json(text), text)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(_reason(error)) from None

    async def ask(self, request: JSON, *, stream: bool = True) -> Outcome:
        """One turn over HTTP. What goes wrong is in the outcome."""
        outcome = Outcome()
        begun = time.monotonic()
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._session().post(
                    f"{self.url}/responses",
                    data=dumps({**request, "stream": stream}),
                    headers={"Content-Type": "application/json"},
                ) as answer,
            ):
                outcome.headers = {name.lower(): value for name, value in answer.headers.items()}
                if answer.content_type != "text/event-stream":
                    return _whole(outcome, answer.status, await answer.text(errors="replace"))
                decoder = SSEDecoder()
                async for chunk in answer.content.iter_any():
                    now = time.monotonic() - begun
                    for event in decoder.feed(chunk):
                        found = _json(event.data)
                        if isinstance(found, dict) and outcome.take(now, found):
                            return outcome
            return outcome.fail("broke_off", "The stream ended before the response did.")
        except TimeoutError:
            return outcome.fail("timeout", f"There was no end after {self._seconds:g} seconds.")
        except (aiohttp.ClientError, OSError) as error:
            return outcome.fail("broke_off", _reason(error))

    async def connect(self) -> "Socket":
        """A WebSocket.

        Raises:
            Unreachable: it was refused.
        """
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                opened = await self._session().ws_connect(
                    f"{self.url}/responses", max_msg_size=0, autoping=True
                )
        except aiohttp.WSServerHandshakeError as error:
            raise Unreachable(f"HTTP {error.status} to the upgrade", error.status) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(_reason(error)) from None
        return Socket(opened, self._seconds)

    def _session(self) -> aiohttp.ClientSession:
        if self._open_session is None:
            self._open_session = aiohttp.ClientSession(
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            )
        return self._open_session


class Socket:
    """An open WebSocket; turns go over it one after the other."""

    def __init__(self, opened: aiohttp.ClientWebSocketResponse, seconds: float) -> None:
        self._socket = opened
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._socket.close()

    async def ask(self, request: JSON) -> Outcome:
        """One turn to its end. What goes wrong is in the outcome."""
        outcome = Outcome()
        try:
            async for at, event in self.events(request):
                outcome.take(at, event)
        except TimeoutError:
            return outcome.fail("timeout", f"There was no end after {self._seconds:g} seconds.")
        except (ConnectionError, aiohttp.ClientError) as error:
            return outcome.fail("broke_off", _reason(error))
        if not outcome.status:
            return outcome.fail("broke_off", "The socket was closed before the response ended.")
        return outcome

    async def events(self, request: JSON) -> AsyncGenerator[tuple[float, JSON], None]:
        """The events of one turn as they come, the last one included.

        Raises:
            TimeoutError: the turn took too long.
            ConnectionError: it was closed.
        """
        begun = time.monotonic()
        async with asyncio.timeout(self._seconds):
            await self._socket.send_str(dumps_str({"type": "response.create", **request}))
            async for message in self._socket:
                event = _json(message.data) if message.type is aiohttp.WSMsgType.TEXT else None
                if not isinstance(event, dict):
                    continue
                yield time.monotonic() - begun, event
                if event.get("type") in _ENDS:
                    return

    def drop(self) -> None:
        """Leave as an interrupted Codex does: the connection ends without a Close frame."""
        connection = self._socket.get_extra_info("socket")
        if connection is not None:
            connection.shutdown(socket.SHUT_RDWR)


def _whole(outcome: Outcome, status: int, text: str) -> Outcome:
    """A body that is no stream: a response, an error, or neither."""
    outcome.status = status
    body = _json(text)
    if isinstance(body, dict) and body.get("object") == "response":
        outcome.response = body
        outcome.error = body.get("error") or {}
    elif isinstance(body, dict) and isinstance(body.get("error"), dict):
        outcome.error = body["error"]
    else:
        shown = " ".join(text.split())[:120]
        outcome.fail("not_the_gateway", f"HTTP {status} with something else: {shown!r}")
    return outcome


def _json(text: Any) -> Any:
    try:
        return loads(text)
    except MalformedJSON:
        return None


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known"
    if isinstance(error, aiohttp.ClientConnectorError):
        return (error.os_error.strerror or str(error.os_error)).lower()
    if isinstance(error, aiohttp.InvalidURL | ValueError):
        return "it is no URL like http://127.0.0.1:8790"
    return f"the connection broke ({str(error) or type(error).__name__})"
