"""A byte relay on aiohttp that understands nothing: the physical limit of this stack, to measure the gateway against.

    python bench/bare.py http://127.0.0.1:PORT/v1 chat|responses

SSE: the upstream's chunks go to the client as they are. WebSocket: they are cut at blank lines, one frame an event,
since a client gets that many frames from the gateway too.
"""

import asyncio
import sys

import aiohttp
from aiohttp import WSMsgType, web

PATHS = {"chat": "/chat/completions", "responses": "/responses"}
HEADERS = {"Content-Type": "application/json"}


class Bare:
    def __init__(self, target: str, session: aiohttp.ClientSession) -> None:
        self._target = target
        self._session = session

    async def sse(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        async with self._session.post(self._target, data=body, headers=HEADERS) as answer:
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        await response.write_eof()
        return response

    async def websocket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(compress=False, decode_text=False, max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            await self._answer(socket, message.data)
            await socket.send_frame(b'{"type":"response.completed"}', WSMsgType.TEXT)
        return socket

    async def _answer(self, socket: web.WebSocketResponse, body: bytes) -> None:
        rest = b""
        async with self._session.post(self._target, data=body, headers=HEADERS) as answer:
            async for chunk in answer.content.iter_any():
                *events, rest = (rest + chunk).split(b"\n\n")
                for event in events:
                    await socket.send_frame(event, WSMsgType.TEXT)


async def main(url: str, dialect: str) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        relay = Bare(url + PATHS[dialect], session)
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/responses", relay.sse)
        app.router.add_get("/v1/responses", relay.websocket)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        port = runner.addresses[0][1]
        print(f"http://127.0.0.1:{port}/v1", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main(*sys.argv[1:]))
    else:
        uvloop.run(main(*sys.argv[1:]))
