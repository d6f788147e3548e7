"""The HTTP client against sockets that misbehave: what is tried again, and what is said."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.errors import UpstreamError
from gateway.upstream.client import Silence, UpstreamClient

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 4\r\n\r\ndata"


class Server:
    """A TCP server that treats each request as its script says."""

    def __init__(self, *script: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._script = list(script)
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self._serving: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while not writer.is_closing():
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        lengths = [line for line in head.lower().split("\r\n") if "content-length" in line]
        size = int(lengths[0].split(":")[1]) if lengths else 0
        self.bodies.append(await reader.readexactly(size))
        await self._script.pop(0)(writer)


def say(data: bytes, *, hang_up: bool = False) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if hang_up:
            writer.close()

    return answer


async def body_of(answer: Any) -> bytes:
    return b"".join([chunk async for chunk in answer.chunks()])


async def test_a_request_and_its_answer() -> None:
    server = Server(say(OK))
    async with server.run() as url, UpstreamClient(url, "sk-secret") as client:
        answer = await client.open("/chat/completions", b'{"a":1}')
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        assert await body_of(answer) == b"data"
    head = server.heads[0]
    assert head.startswith("POST /v1/chat/completions HTTP/1.1")
    assert "Authorization: Bearer sk-secret" in head
    assert "Accept-Encoding: identity" in head
    assert "Content-Length: 7" in head  # mlx-lm refuses chunked bodies
    assert server.bodies == [b'{"a":1}']


async def test_without_a_key_there_is_no_authorization() -> None:
    server = Server(say(OK))
    async with server.run() as url, UpstreamClient(url) as client:
        (await client.open("/responses", b"{}")).close()
    assert "Authorization" not in server.heads[0]


async def test_a_connection_that_fails_before_any_byte_is_tried_once_more() -> None:
    server = Server(say(b"", hang_up=True), say(OK))
    async with server.run() as url, UpstreamClient(url) as client:
        assert await body_of(await client.open("/responses", b"{}")) == b"data"
    assert len(server.heads) == 2


async def test_it_is_not_tried_a_third_time() -> None:
    server = Server(say(b"", hang_up=True), say(b"", hang_up=True), say(OK))
    async with server.run() as url, UpstreamClient(url) as client:
        with pytest.raises(UpstreamError, match="it closed the connection") as caught:
            await client.open("/responses", b"{}")
    assert (caught.value.status, caught.value.code) == (502, "upstream_unreachable")
    assert len(server.heads) == 2


async def test_a_kept_connection_that_died_costs_one_more_try() -> None:
    server = Server(say(OK), say(b"", hang_up=True), say(OK))
    async with server.run() as url, UpstreamClient(url) as client:
        assert await body_of(await client.open("/responses", b"1")) == b"data"
        assert await body_of(await client.open("/responses", b"2")) == b"data"
    assert server.bodies == [b"1", b"2", b"2"]
    assert server.connections == 2


@pytest.mark.parametrize("status", [b"500 No", b"503 No", b"429 No", b"307 Elsewhere"])
async def test_a_status_is_never_tried_again(status: bytes) -> None:
    location = b"Location: http://127.0.0.1:9/\r\n"
    server = Server(
        say(b"HTTP/1.1 " + status + b"\r\n" + location + b"Content-Length: 2\r\n\r\nno")
    )
    async with server.run() as url, UpstreamClient(url) as client:
        answer = await client.open("/responses", b"{}")
        assert answer.status == int(status[:3])
        assert await answer.read() == b"no"
    assert len(server.heads) == 1


async def test_an_answer_that_breaks_off() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"
    server = Server(say(head, hang_up=True))
    async with server.run() as url, UpstreamClient(url) as client:
        answer = await client.open("/responses", b"{}")
        with pytest.raises(UpstreamError, match="broke off"):
            await body_of(answer)
    assert len(server.heads) == 1


async def test_a_server_that_speaks_something_else() -> None:
    server = Server(say(b"SSH-2.0-OpenSSH\r\n\r\n", hang_up=True))
    async with server.run() as url, UpstreamClient(url) as client:
        with pytest.raises(UpstreamError, match="not HTTP"):
            await client.open("/responses", b"{}")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"])
async def test_a_silent_server_is_given_up(said: bytes) -> None:
    server = Server(say(said))
    async with server.run() as url, UpstreamClient(url, idle_timeout=0.05) as client:
        with pytest.raises(UpstreamError, match="in time") as caught:
            await body_of(await client.open("/responses", b"{}"))
    assert (caught.value.status, caught.value.code) == (504, "upstream_timeout")
    assert len(server.heads) == 1


async def test_a_long_error_is_read_up_to_a_limit() -> None:
    server = Server(say(b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n" + b"x" * 20_000))
    async with server.run() as url, UpstreamClient(url) as client:
        answer = await client.open("/responses", b"{}")
        assert await answer.read(1000) == b"x" * 1000


async def test_words_for_what_cannot_be_reached_never_have_a_password() -> None:
    async with UpstreamClient("http://user:secret@127.0.0.1:9/v1", "sk-secret") as client:
        with pytest.raises(UpstreamError) as caught:
            await client.open("/responses", b"{}")
    assert caught.value.message == (
        "The model server at 127.0.0.1:9 cannot be reached (connection refused)."
    )


@pytest.mark.parametrize(
    ("body", "expected"), [(b'{"data":[]}', {"data": []}), (b"<html>", None), (b"", None)]
)
async def test_a_document_or_none(body: bytes, expected: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nServer: it\r\nContent-Length: %d\r\n\r\n" % len(body)
    server = Server(say(head + body))
    async with server.run() as url, UpstreamClient(url) as client:
        status, headers, found = await client.get_json(f"{url}/models")
    assert (status, headers["server"], found) == (200, "it", expected)
    assert server.heads[0].startswith("GET /v1/models ")


async def test_the_connection_is_used_again_after_a_drain() -> None:
    server = Server(say(OK), say(OK))
    async with server.run() as url, UpstreamClient(url) as client:
        for _ in range(2):
            await (await client.open("/responses", b"{}")).drain()
    assert server.connections == 1


@pytest.mark.parametrize("size", [10, 3 << 20])
async def test_a_body_of_any_size_goes_whole_and_with_its_length(size: int) -> None:
    seen: list[tuple[str | None, int]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.headers.get("Content-Length"), len(await request.read())))
        return web.Response(text="ok")

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server, UpstreamClient(f"{server.make_url('/v1')}") as client:
        reply = await client.open("/chat/completions", b"x" * size)
        reply.close()
    assert seen == [(str(size), size)]


async def test_a_slow_client_is_not_the_servers_silence() -> None:
    """What passes between two reads does not count; only a read that brings nothing does."""
    ended = asyncio.Event()
    silence = Silence(0.05, ended.set)
    silence.begin()
    silence.since = None
    with pytest.raises(TimeoutError):  # three times the limit, while nothing is being read
        async with asyncio.timeout(0.15):
            await ended.wait()
    silence.begin()
    async with asyncio.timeout(5):
        await ended.wait()
    assert silence.was_too_long
    silence.stop()
