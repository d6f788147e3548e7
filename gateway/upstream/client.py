"""The one HTTP client: opens a request at the model server, hands out the bytes of the answer.

It knows no dialect. A connection that fails before any byte of an answer is tried once more; a
status never is, clients do that themselves. Its key is read from the environment by the caller and
is never logged.
"""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from gateway import __version__
from gateway.errors import UpstreamError
from gateway.wire.json import MalformedJSON, loads

# Model servers on uvicorn or node close an idle connection after 5 s: ours must go first, or a
# request would be written into a connection that is just being closed.
KEEPALIVE_SECONDS = 4.0
# An error's body is read for its message only.
MAX_ERROR_BYTES = 1024 * 1024
# A list of models (OpenRouter's is 600 KB).
MAX_JSON_BYTES = 16 * 1024 * 1024
# Asking a server what it is must not hold up a start.
GET_TIMEOUT_SECONDS = 10.0
# Between the event that ends a response and the end of its body lies nothing but a packet.
DRAIN_SECONDS = 1.0
# A second try on a fresh connection; a server that refuses twice is down.
ATTEMPTS = 2


class Answer:
    """An answer whose status is known and whose body is still on its way."""

    def __init__(
        self, response: aiohttp.ClientResponse, host: str, idle_timeout: float | None = None
    ) -> None:
        self._response = response
        self._content = response.content
        self._host = host
        self._silence = Silence(idle_timeout, self.close)
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.content_type

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, in the server's own pieces."""
        try:
            while chunk := await self.chunk():
                yield chunk
        finally:
            self.end()

    async def chunk(self) -> bytes:
        """The next piece, b"" when the body is over; `end` must follow the last one.

        (A generator around it costs as much for each event as half the translation.)
        """
        self._silence.begin()
        try:
            chunk = await self._content.readany()
        except TimeoutError:
            self.close()
            raise _silent(self._host) from None
        except (aiohttp.ClientError, OSError):
            self.close()
            if self._silence.was_too_long:
                raise _silent(self._host) from None
            raise UpstreamError(
                f"The model server at {self._host} broke off its answer.",
                code="upstream_broke_off",
            ) from None
        self._silence.since = None  # what the client takes to read that is not the server's silence
        return chunk

    def end(self) -> None:
        """No more is read: its silence does not count."""
        self._silence.stop()

    async def read(self, limit: int = MAX_ERROR_BYTES) -> bytes:
        """The body, at most `limit` bytes of it."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            parts.append(chunk)
            size += len(chunk)
            if size >= limit:
                self.close()
                break
        return b"".join(parts)[:limit]

    async def drain(self) -> None:
        """Read what follows the end (a chunk's trailer), so that the connection can be used again.

        A server that does not come to its end in time is cut off.
        """
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.read(MAX_ERROR_BYTES)
        except (UpstreamError, TimeoutError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Break the connection off at once: the server stops generating. Harmless after the end."""
        self._response.close()


class Silence:
    """One timer a stream, that looks whether the server has been silent for too long.

    Args:
        seconds: how long is too long; None: never.
        end: called then.
    """

    def __init__(self, seconds: float | None, end: Callable[[], None]) -> None:
        self._seconds = seconds
        self._end = end
        self._loop = asyncio.get_running_loop()
        # When the read has begun that is going on; None between two reads.
        self.since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.was_too_long = False

    def begin(self) -> None:
        """A read begins."""
        self.since = self._loop.time()
        if self._timer is None and self._seconds is not None:
            self._timer = self._loop.call_later(self._seconds, self._look)

    def stop(self) -> None:
        """The stream is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        assert self._seconds is not None
        waited = 0.0 if self.since is None else self._loop.time() - self.since
        if waited >= self._seconds:
            self.was_too_long = True
            self._end()
        else:
            self._timer = self._loop.call_later(self._seconds - waited, self._look)


class UpstreamClient:
    """Requests to one model server.

    Args:
        url: its base, ending in /v1 without a slash.
        api_key: sent as a bearer token; "" for none.
        connect_timeout: seconds until a connection must stand.
        idle_timeout: seconds of silence after which the server counts as dead.
    """

    def __init__(
        self,
        url: str,
        api_key: str = "",
        *,
        connect_timeout: float = 10.0,
        idle_timeout: float = 1800.0,
    ) -> None:
        self.url = url
        # For messages: without what a URL may carry of a password.
        self.host = urlsplit(url).netloc.rpartition("@")[2]
        self._headers = {
            "Accept": "text/event-stream, application/json",
            # A compressed stream would come in bursts of the compressor's making.
            "Accept-Encoding": "identity",
            "User-Agent": f"responses-gateway/{__version__}",
        }
        self._api_key = api_key.encode()
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        # No sock_read: aiohttp makes a timer for every chunk then, dearer than the reading. `Silence` has one.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout)
        self._idle_timeout = idle_timeout
        self._open_session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self, path: str, body: bytes) -> Answer:
        """POST a JSON body; the answer is returned as soon as its status is known.

        Raises:
            UpstreamError: when no answer came.
        """
        headers = {"Content-Type": "application/json"}
        try:
            async with asyncio.timeout(self._idle_timeout):
                asked = self._request("POST", self.url + path, headers, body, self._timeout)
                response = await asked
        except TimeoutError:
            raise _silent(self.host) from None
        return Answer(response, self.host, self._idle_timeout)

    async def get_json(self, url: str) -> tuple[int, Mapping[str, str], Any]:
        """GET a whole URL: its status, its headers, and its body where that is JSON, else None.

        Raises:
            UpstreamError: when no answer came.
        """
        limits = aiohttp.ClientTimeout(total=GET_TIMEOUT_SECONDS)
        answer = Answer(await self._request("GET", url, {}, None, limits), self.host)
        try:
            body = await answer.read(MAX_JSON_BYTES)
        finally:
            answer.close()
        try:
            return answer.status, answer.headers, loads(body)
        except MalformedJSON:
            return answer.status, answer.headers, None

    def without_key(self, body: bytes) -> bytes:
        """An error's body without our key: some servers quote the key that they refuse."""
        return body.replace(self._api_key, b"[hidden]") if self._api_key else body

    async def close(self) -> None:
        """Close every connection."""
        if self._open_session is not None:
            await self._open_session.close()
            self._open_session = None

    async def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        failure: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                return await self._session().request(
                    method,
                    # A key goes before a user and password in the URL; both at once cannot be sent.
                    URL(url).with_user(None) if "Authorization" in self._headers else url,
                    headers=headers,
                    # Bytes of their own file: aiohttp warns of large bare bytes, and a second try needs a fresh one.
                    data=None if body is None else io.BytesIO(body),
                    timeout=limits,
                    # The key must not follow to another host, and a redirected POST loses its body.
                    allow_redirects=False,
                )
            except TimeoutError as error:
                raise _silent(self.host) from error
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, OSError) as error:
                failure = error
            except (aiohttp.ClientError, ValueError) as error:
                raise UpstreamError(
                    f"The model server at {self.host} gave an answer that is not HTTP.",
                    code="upstream_unreachable",
                ) from error
        raise UpstreamError(
            f"The model server at {self.host} cannot be reached ({_reason(failure)}).",
            code="upstream_unreachable",
        ) from failure

    def _session(self) -> aiohttp.ClientSession:
        if self._open_session is None:
            connector = aiohttp.TCPConnector(
                # The model server queues better than a pool that nobody sees.
                limit=0,
                keepalive_timeout=KEEPALIVE_SECONDS,
            )
            self._open_session = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                raise_for_status=False,
            )
        return self._open_session


def _silent(host: str) -> UpstreamError:
    return UpstreamError(
        f"The model server at {host} did not answer in time.", status=504, code="upstream_timeout"
    )


def _reason(failure: BaseException | None) -> str:
    """In words: an errno's text, or that the server hung up."""
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        return "its name is not known"
    if isinstance(failure, OSError) and failure.errno:
        return os.strerror(failure.errno).lower()
    return "it closed the connection"
