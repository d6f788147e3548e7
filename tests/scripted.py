"""The scripted strict upstream: a model server on 127.0.0.1 that says what a test wrote.

    async with ScriptedUpstream(["hello"]) as upstream:               # one answer after the other
    async with ScriptedUpstream(lambda request: Call("f") …) as upstream:   # or by the request

It speaks /v1/chat/completions and a function-only /v1/responses, so one script serves both
dialects. What a real server would refuse (tests/strict.py) it answers with 400 and keeps in
`refusals`: a test ends with `upstream.check()`.
"""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

from tests import answers, strict
from tests.answers import (
    Answer,
    Call,
    Part,
    Raw,
    Reasoning,
    Refuse,
    Reply,
    Text,
    as_reply,
    break_off,
    hang,
)

__all__ = [
    "Answer",
    "Call",
    "Raw",
    "Reasoning",
    "Received",
    "Refuse",
    "ScriptedUpstream",
    "Text",
    "break_off",
    "hang",
]

JSON = dict[str, Any]
MODEL = "scripted"


@dataclass(frozen=True)
class Received:
    """A request as the model server got it, with views that are the same for both dialects."""

    path: str
    body: JSON
    headers: dict[str, str] = field(repr=False)
    raw: bytes = field(repr=False)

    @property
    def is_chat(self) -> bool:
        return self.path.endswith("/chat/completions")

    @property
    def history(self) -> list[JSON]:
        """Messages of chat, input items of Responses."""
        return list(self.body["messages"] if self.is_chat else self.body["input"])

    @property
    def functions(self) -> dict[str, JSON]:
        """The declared functions by name."""
        tools = self.body.get("tools", [])
        declared = [tool["function"] if self.is_chat else tool for tool in tools]
        return {function["name"]: function for function in declared}

    @property
    def outputs(self) -> list[str]:
        """The texts of all tool outputs, in order."""
        if self.is_chat:
            return [m["content"] for m in self.history if m["role"] == "tool"]
        return [i["output"] for i in self.history if i["type"] == "function_call_output"]

    @property
    def calls(self) -> list[tuple[str, str]]:
        """(name, arguments) of all calls in the history, in order."""
        if self.is_chat:
            made = [c["function"] for m in self.history for c in m.get("tool_calls") or ()]
        else:
            made = [i for i in self.history if i["type"] == "function_call"]
        return [(call["name"], call["arguments"]) for call in made]

    @property
    def texts(self) -> list[str]:
        """User texts, in order."""
        users = [entry for entry in self.history if entry.get("role") == "user"]
        return [_text(entry["content"]) for entry in users]

    def named(self, ending: str) -> str:
        """The one declared function whose name ends so: how the gateway calls a namespaced tool."""
        found = [name for name in self.functions if name.endswith(ending)]
        assert len(found) == 1, f"{ending!r} fits {found} of {list(self.functions)}"
        return found[0]


Script = Callable[[Received], Any] | Iterable[Any]


class ScriptedUpstream:
    """See the module's docstring.

    Args:
        script: answers in order, or a function of the request that returns one.
        split: the answer is written in pieces of so many bytes; 0 writes one event at a time.
        strictly: refuse what real servers refuse; otherwise only record it.
        allow: top-level request keys that are fine besides the strict list.
        port: where it listens; 0 is any free one.
    """

    def __init__(
        self,
        script: Script,
        *,
        split: int = 0,
        strictly: bool = True,
        allow: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        self._script = script if callable(script) else _in_order(script)
        self._split = split
        self._strictly = strictly
        self._allow = allow
        self._port = port
        self._ids = itertools.count(1)
        self._released = asyncio.Event()
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self.requests: list[Received] = []
        self.refusals: list[str] = []
        self.script_errors: list[BaseException] = []
        self.hanging = 0
        self.disconnects = 0
        self.url = ""

    async def __aenter__(self) -> "ScriptedUpstream":
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", self._generate)
        app.router.add_post("/v1/responses", self._generate)
        app.router.add_get("/v1/models", self._models)
        # Cancellation is how a handler learns that its client went away.
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._released.set()
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def bodies(self) -> list[JSON]:
        return [request.body for request in self.requests]

    def check(self) -> None:
        """Fail with the words of everything that a real server would have refused."""
        assert not self.script_errors, f"the script failed: {self.script_errors}"
        assert not self.refusals, "\n".join(self.refusals)

    def release(self) -> None:
        """Let hanging answers go on."""
        self._released.set()

    async def until(self, condition: Callable[["ScriptedUpstream"], object]) -> None:
        """Wait until something has happened here, such as `lambda u: u.disconnects`."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(condition(self)))

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _models(self, request: web.Request) -> web.Response:
        entry = {"id": MODEL, "object": "model", "created": 1, "owned_by": "scripted"}
        return web.json_response({"object": "list", "data": [entry]})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            received = self._accept(request, raw)
            reply = as_reply(self._script(received))
        except strict.Refusal as refusal:
            self.refusals.append(f"{request.path}: {refusal}")
            await self._notify()
            error = {"message": str(refusal), "type": "invalid_request_error", "code": 400}
            return web.json_response({"error": error}, status=400)
        except Exception as error:  # a script's own mistake must not look like a server's answer
            self.script_errors.append(error)
            await self._notify()
            return web.json_response({"error": {"message": f"script: {error!r}"}}, status=400)
        await self._notify()
        return await self._reply(request, received, reply)

    def _accept(self, request: web.Request, raw: bytes) -> Received:
        """Record the request; raise `Refusal` for one that a real server would not take."""
        body = json.loads(raw)
        received = Received(request.path, body, dict(request.headers), raw)
        self.requests.append(received)
        try:
            strict.check_headers(request.headers)
            strict.check_body(body, chat=received.is_chat, allow=self._allow)
        except strict.Refusal as refusal:
            if self._strictly:
                raise
            self.refusals.append(str(refusal))
        return received

    async def _reply(
        self, request: web.Request, received: Received, reply: Reply
    ) -> web.StreamResponse:
        if isinstance(reply, Refuse):
            return web.json_response(reply.body, status=reply.status, headers=dict(reply.headers))
        if isinstance(reply, Raw):
            headers = {"Content-Type": reply.content_type}
            response = web.StreamResponse(status=reply.status, headers=headers)
            await response.prepare(request)
            await self._write(response, reply.body)
            return response
        parts = answers.with_ids(reply, self._new_id)
        body = received.body
        if body["stream"]:
            return await self._stream(request, received, reply, parts)
        await self._hang_or_break(request, reply, 0 if reply.hang_after is not None else -1)
        whole = answers.chat_json if received.is_chat else answers.final_response
        return web.json_response(whole(body, reply, parts))

    async def _stream(
        self, request: web.Request, received: Received, answer: Answer, parts: Sequence[Part]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        render = answers.chat_stream if received.is_chat else answers.responses_stream
        for sent, piece in enumerate(render(received.body, answer, parts)):
            await self._hang_or_break(request, answer, sent)
            await self._write(response, piece)
        return response

    async def _hang_or_break(self, request: web.Request, answer: Answer, sent: int) -> None:
        if answer.break_after == sent and request.transport is not None:
            request.transport.abort()
            raise ConnectionResetError("broken off, as the script says")
        if answer.hang_after != sent:
            return
        self.hanging += 1
        await self._notify()
        try:
            await self._released.wait()
        except asyncio.CancelledError:
            self.disconnects += 1
            await asyncio.shield(self._notify())
            raise
        finally:
            self.hanging -= 1

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        step = self._split or len(data)
        for at in range(0, len(data), step):
            await response.write(data[at : at + step])

    def _new_id(self) -> str:
        return f"call_up{next(self._ids)}"


def _in_order(script: Iterable[Any]) -> Callable[[Received], Any]:
    remaining = iter(script)

    def answer(request: Received) -> Any:
        try:
            return next(remaining)
        except StopIteration:
            raise AssertionError("the script has no answer left for this request") from None

    return answer


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
