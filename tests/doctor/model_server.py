"""A model server that does as it is told, and a proxy: each with one thing wrong when a test says so."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, WSMsgType, web

from tests import answers
from tests.answers import Answer, Call, Part, Text

JSON = dict[str, Any]

MODEL = "obliging"
HTML = "<html><head><title>Welcome</title></head></html>"
# A model needs time for each piece: whether an answer streams shows in nothing else.
PIECE_SECONDS = 0.02
PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n"
ARGUMENTS: dict[str, JSON] = {
    "get_weather": {"city": "Oslo"},
    "mcp__weather__get_forecast": {"city": "Oslo"},
    "apply_patch": {"input": PATCH},
    "set_date": {"input": "2026-06-01"},
    "tool_search": {"query": "weather"},
}
NUMBERS = ", ".join(["one", "two", "three", "four", "five", "six", "seven", "eight"] * 2)


@dataclass(frozen=True)
class Server:
    """What is the matter with a model server; the defaults are one that has nothing."""

    key: str = ""
    open_list: bool = False
    window: int | None = 32768
    refuse_above: int = 10**9
    models: tuple[str, ...] = (MODEL,)
    takes_any_name: bool = False
    api: str = "chat"
    html: bool = False
    drops_tools: bool = False
    leaks: bool = False
    never_calls: bool = False
    one_call: bool = False
    cuts: bool = False
    streams: bool = True
    holds_back: bool = False
    thinks_aloud: bool = False
    breaks_off: bool = False
    hangs: bool = False
    fails: bool = False
    arguments: str = ""
    only: str = ""

    def parts(self, body: JSON) -> list[Part]:
        """What the model says."""
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        if not names or self.drops_tools or self.never_calls:
            return [Text(f"<think>well</think>{NUMBERS}" if self.thinks_aloud else NUMBERS)]
        name = names[0]
        arguments = json.dumps(ARGUMENTS[name])
        if self.arguments and self.only in ("", name):
            arguments = self.arguments
        if self.leaks:
            return [Text(f'<tool_call>\n{{"name": "{name}"}}\n</tool_call>')]
        if self.cuts:
            arguments = arguments[:-3]
        both = "both at once" in str(body["messages"][-1]["content"]) and not self.one_call
        return [Call(name, arguments, call_id=f"call_{at}") for at in range(2 if both else 1)]

    async def models_list(self, request: web.Request) -> web.StreamResponse:
        if self.html:
            return web.Response(text=HTML, content_type="text/html")
        if self.key and not self.open_list and not self._has_key(request):
            return _refuse(401, "Incorrect API key provided")
        entries: list[JSON] = [{"id": model, "object": "model"} for model in self.models]
        if self.window is not None:
            entries = [{**entry, "max_model_len": self.window} for entry in entries]
        return web.json_response({"object": "list", "data": entries})

    async def generate(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body: JSON = json.loads(raw)
        if self.html:
            return web.Response(text=HTML, content_type="text/html")
        if self.key and not self._has_key(request):
            return _refuse(401, "Incorrect API key provided")
        if "messages" not in body:
            return _refuse(400, "messages is missing")
        if body["model"] not in self.models and not self.takes_any_name:
            return _refuse(404, f"The model {body['model']} does not exist", "model_not_found")
        if len(raw) > self.refuse_above:
            return _refuse(400, "This model's maximum context length is 4096 tokens.")
        if self.fails:
            return _refuse(500, "CUDA error: out of memory")
        if self.hangs:
            await asyncio.Event().wait()
        parts = self.parts(body)
        answer = Answer(parts, finish="length" if self.cuts and body.get("tools") else "")
        if not body["stream"] or not self.streams:
            whole = answers.chat_json(body, answer, parts)
            counted = {k: v for k, v in body.items() if k != "tools" or not self.drops_tools}
            whole["usage"]["prompt_tokens"] = len(json.dumps(counted["messages"])) + len(
                json.dumps(counted.get("tools", ""))
            )
            return web.json_response(whole)
        return await self._stream(request, body, answer)

    async def _stream(self, request: web.Request, body: JSON, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        held = b""
        parts = [part for part in answer.parts if not isinstance(part, str)]
        for at, piece in enumerate(answers.chat_stream(body, answer, parts)):
            if self.breaks_off and at == 3 and request.transport is not None:
                request.transport.abort()
                raise ConnectionResetError("broken off, as the test says")
            if not body.get("tools"):
                await asyncio.sleep(PIECE_SECONDS)
            held += piece
            if not self.holds_back:
                await response.write(held)
                held = b""
        await response.write(held)
        return response

    def _has_key(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {self.key}"


@contextlib.asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[str]:
    """The URL of an application on a free port."""
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def model_server(server: Server) -> AsyncIterator[str]:
    """Its URL, ending in /v1."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_get("/v1/models", server.models_list)
    path = "/v1/chat/completions" if server.api == "chat" else "/v1/other"
    app.router.add_post(path, server.generate)
    if server.html:
        app.router.add_post("/v1/responses", server.generate)
    async with listening(app) as url:
        yield f"{url}/v1"


@dataclass(frozen=True)
class Proxy:
    """What is the matter with a proxy before the gateway."""

    buffers: bool = False
    blocks_websocket: bool = False
    html: bool = False
    wants_key: bool = False

    @contextlib.asynccontextmanager
    async def before(self, target: str) -> AsyncIterator[str]:
        """Its URL; `target` is without /v1."""
        app = web.Application(client_max_size=1 << 26)
        async with ClientSession(auto_decompress=False) as session:

            async def forward(request: web.Request) -> web.StreamResponse:
                return await self._forward(request, session, target)

            app.router.add_route("*", "/{path:.*}", forward)
            async with listening(app) as url:
                yield url

    async def _forward(
        self, request: web.Request, session: ClientSession, target: str
    ) -> web.StreamResponse:
        if self.html:
            return web.Response(text=HTML, content_type="text/html")
        if self.wants_key and request.path.startswith("/v1"):
            return _refuse(401, "Missing API key")
        if request.headers.get("Upgrade", "").lower() == "websocket":
            if self.blocks_websocket:
                return _refuse(400, "no upgrade here")
            return await _websocket(request, session, target)
        url, body = f"{target}{request.path_qs}", await request.read()
        headers = {"Content-Type": request.content_type, "Server": "nginx"}
        async with session.request(
            request.method, url, data=body or None, headers=headers
        ) as answer:
            own = {"Content-Type": answer.headers["Content-Type"], "Server": "nginx"}
            response = web.StreamResponse(status=answer.status, headers=own)
            if self.buffers:
                whole = await answer.read()
                await response.prepare(request)
                await response.write(whole)
                return response
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


async def _websocket(
    request: web.Request, session: ClientSession, target: str
) -> web.StreamResponse:
    async with session.ws_connect(f"{target}{request.path}", max_msg_size=0) as up:
        down = web.WebSocketResponse(max_msg_size=0)
        await down.prepare(request)

        async def back() -> None:
            async for message in up:
                if message.type is WSMsgType.TEXT:
                    await down.send_str(message.data)

        task = asyncio.create_task(back())
        try:
            async for message in down:
                await up.send_str(message.data)
        finally:
            task.cancel()
        return down


def _refuse(status: int, message: str, code: str | None = None) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "code": code}
    return web.json_response({"error": error}, status=status)
