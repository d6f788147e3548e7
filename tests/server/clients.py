"""One client for the three transports, so that one test says what holds for all of them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from gateway.app import Gateway
from gateway.config import Config, ServerConfig, UpstreamConfig
from tests.shared import check_response, check_stream

JSON = dict[str, Any]

TRANSPORTS = ("json", "sse", "ws")
APIS = ("chat", "responses")
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass
class Reply:
    """What a client got.

    Attributes:
        status: of HTTP, or of the error frame.
        events: none over blocking JSON.
        response: the final Response, {} when there is none.
        error: the error, wherever it stood, {} when there is none.
    """

    status: int
    events: list[JSON] = field(default_factory=list)
    response: JSON = field(default_factory=dict)
    error: JSON = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def text(self) -> str:
        parts = [p for item in self.response["output"] for p in item.get("content", [])]
        return "".join(part["text"] for part in parts)


@contextlib.asynccontextmanager
async def gateway_for(url: str, api: str = "chat", **server: Any) -> AsyncIterator[Gateway]:
    """A gateway in this process, in front of the model server at `url`."""
    config = Config(
        server=ServerConfig(port=0, **{"shutdown_seconds": 0.5, **server}),
        upstream=UpstreamConfig(url=url, api=api),  # type: ignore[arg-type]  # one of APIS
    )
    async with Gateway(config) as gateway:
        yield gateway


async def run_turn(transport: str, url: str, request: JSON) -> Reply:
    """One request on a connection of its own, its stream judged by the stream checker."""
    async with aiohttp.ClientSession() as session:
        if transport == "ws":
            async with session.ws_connect(f"{url}/v1/responses", max_msg_size=0) as socket:
                return await ws_turn(socket, request)
        body = {**request, "stream": transport == "sse"}
        async with session.post(f"{url}/v1/responses", json=body) as answer:
            return await _http_reply(answer, body)


async def _http_reply(answer: aiohttp.ClientResponse, body: JSON) -> Reply:
    reply = Reply(answer.status, headers={k.lower(): v for k, v in answer.headers.items()})
    if answer.content_type == "text/event-stream":
        frames = sse_frames(await answer.text())
        check_stream(frames, request=body, ignore=("I5",))
        reply.events = [event for _, event, _ in frames]
        reply.response = reply.events[-1]["response"]
    else:
        found = await answer.json()
        reply.response = found if found.get("object") == "response" else {}
        reply.error = found.get("error") or {}
        if answer.status == 200:
            check_response(found, request=body)
    reply.error = reply.error or reply.response.get("error") or {}
    return reply


def sse_frames(text: str) -> list[tuple[str, JSON, str]]:
    """The events of an SSE body, as the checker takes them."""
    frames = []
    for block in text.split("\n\n"):
        if block:
            name, data = block.split("\n")
            frames.append(
                ("s2c", json.loads(data.removeprefix("data: ")), name.removeprefix("event: "))
            )
    return frames


async def ws_turn(
    socket: aiohttp.ClientWebSocketResponse, request: JSON, *, check: bool = True
) -> Reply:
    """One create on an open socket, read to its end."""
    frame = {"type": "response.create", **request}
    await socket.send_json(frame)
    reply = await ws_reply(socket)
    if check:
        frames = [("c2s", frame), *(("s2c", event) for event in reply.events)]
        check_stream(frames, transport="ws", request=frame, ignore=("I5",))
    return reply


async def ws_reply(socket: aiohttp.ClientWebSocketResponse) -> Reply:
    """Events up to an end."""
    reply = Reply(200)
    while not reply.events or reply.events[-1]["type"] not in ENDS:
        reply.events.append(await socket.receive_json())
    last = reply.events[-1]
    if last["type"] == "error":
        reply.status, reply.error = last["status"], last["error"]
        reply.headers = last.get("headers", {})
    else:
        reply.response = last["response"]
        reply.error = reply.response["error"] or {}
    return reply


async def stream(
    session: aiohttp.ClientSession, transport: str, url: str, request: JSON
) -> AsyncIterator[JSON]:
    """The events of one turn one by one, while the answer is on its way."""
    if transport == "sse":
        body = {**request, "stream": True}
        async with session.post(f"{url}/v1/responses", json=body) as answer:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        return
    async with session.ws_connect(f"{url}/v1/responses") as socket:
        await socket.send_json({"type": "response.create", **request})
        event: JSON = {"type": ""}
        while event["type"] not in ENDS:
            event = await socket.receive_json()
            yield event


class GatedUpstream:
    """A model server whose answers wait, status and all, until a test opens the gate."""

    def __init__(self, status: int, body: bytes, content_type: str) -> None:
        self._answer = (status, body, content_type)
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> "GatedUpstream":
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._generate)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gate.set()
        await self._runner.cleanup()

    async def _generate(self, request: web.Request) -> web.Response:
        await request.read()
        self.asked.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        status, body, content_type = self._answer
        return web.Response(status=status, body=body, content_type=content_type)
