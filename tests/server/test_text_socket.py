"""Frames that are written together arrive one by one, and a client that does not read is waited for."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from gateway.server.text_socket import MAX_UNSENT_BYTES, TextSocket

# Around the places where a frame's length takes another form (RFC 6455 section 5.2).
LENGTHS = (0, 1, 125, 126, 127, 65535, 65536, 70000)
TEXTS = ["é" * (length // 2) + "x" * (length % 2) for length in LENGTHS]
Serve = Callable[[TextSocket], Awaitable[None]]


def server_of(serve: Serve, *, compress: bool = False) -> TestServer:
    async def handler(request: web.Request) -> web.StreamResponse:
        socket = TextSocket(1 << 20, compress=compress)
        await socket.prepare(request)
        await serve(socket)
        return socket

    app = web.Application()
    app.router.add_get("/", handler)
    return TestServer(app)


@pytest.mark.parametrize("compress", [False, True])
async def test_texts_of_every_length_arrive_in_order(compress: bool) -> None:
    async def serve(socket: TextSocket) -> None:
        await socket.send_texts([text.encode() for text in TEXTS])
        await socket.send_texts([b"the end"])
        await socket.close()

    async with server_of(serve, compress=compress) as server, aiohttp.ClientSession() as session:
        asked = session.ws_connect(server.make_url("/"), compress=15 if compress else 0)
        async with asked as client:
            assert bool(client.compress) == compress
            got = [message async for message in client]
    assert [message.data for message in got] == [*TEXTS, "the end"]
    assert {message.type for message in got} == {WSMsgType.TEXT}


async def test_a_client_that_does_not_read_is_waited_for() -> None:
    sent = 0
    is_stuck = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def serve(socket: TextSocket) -> None:
        nonlocal sent
        for _ in range(1000):
            timer = loop.call_later(0.5, is_stuck.set)
            await socket.send_texts([b"x" * MAX_UNSENT_BYTES])
            timer.cancel()
            sent += 1

    async with server_of(serve) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        await is_stuck.wait()
        assert sent < 1000
        writer.transport.abort()
        assert reader is not None


async def test_nothing_is_sent_after_the_close() -> None:
    failed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def serve(socket: TextSocket) -> None:
        await socket.close()
        try:
            await socket.send_texts([b"late"])
        except ConnectionError:
            failed.set_result(True)

    async with server_of(serve) as server, aiohttp.ClientSession() as session:
        async with session.ws_connect(server.make_url("/")) as client:
            assert [message async for message in client] == []
        assert await failed
