"""What the real Codex CLI can do through each gateway that is installed here, and what a plain client sees.

    BENCH_PEERS=/tmp/peers/bin python -m bench.compare

One scripted model server (tests/scripted.py, taking whatever it is sent), one Codex (tests/peers/codex.py), the same
script for every gateway. A cell is `yes`, or what happened instead. Peers: see bench/peers.py.
"""

import asyncio
import itertools
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp

from bench.load import apply_patch
from bench.peers import KEY, PEERS, installed
from bench.processes import Served, gateway
from tests.peers.codex import Codex
from tests.scripted import Call, Received, ScriptedUpstream

JSON = dict[str, Any]
Script = Callable[[Received], Any]

SECONDS = 60.0
WORD = "one line of a file"
PATCH = f"*** Begin Patch\n*** Add File: made.txt\n+{WORD}\n*** End Patch\n"


class Bench:
    """One gateway in front of a scripted model server whose script is changed by each check."""

    def __init__(
        self, folder: Path, served: Served, upstream: ScriptedUpstream, script: list[Script]
    ) -> None:
        self._folder = folder
        self._runs = itertools.count()
        self.served = served
        self.upstream = upstream
        self._script = script

    def say(self, script: Script) -> None:
        """From now on the model answers so."""
        self._script[:] = [script]
        self.upstream.requests.clear()

    async def codex(self, *, model: str, websocket: bool, mcp: bool = False) -> tuple[Codex, Any]:
        """One `codex exec`, and how it went."""
        folder = self._folder / f"codex{next(self._runs)}"
        codex = Codex(folder, self.served.url, websocket=websocket, model=model, mcp=mcp)
        codex.env["GATEWAY_KEY"] = KEY
        return codex, await codex.exec("do it", seconds=SECONDS)

    async def events(self, request: JSON) -> list[JSON]:
        """The events of one request over SSE."""
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session,
            session.post(f"{self.served.url}/responses", json=request) as answer,
        ):
            text = await answer.text()
            if answer.status != 200:
                raise RuntimeError(f"{answer.status}: {text[:120]}")
        lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line and line != "[DONE]"]


def patching(key: str) -> Callable[[Bench, bool], Awaitable[str]]:
    """A check: the model puts its patch under this key, and Codex edits a file."""

    async def check(bench: Bench, websocket: bool) -> str:
        call = Call("apply_patch", {key: PATCH})
        bench.say(lambda request: "done" if request.outputs else call)
        codex, run = await bench.codex(model="freeform", websocket=websocket)
        made = codex.work / "made.txt"
        if made.exists() and made.read_text() == f"{WORD}\n":
            return "yes"
        return _why(run)

    return check


async def custom_events(bench: Bench, websocket: bool) -> str:
    """The whole sequence of a custom call, and nothing of the function behind it."""
    bench.say(lambda request: Call("apply_patch", {"input": PATCH}))
    request = {"model": "freeform", "input": "x", "stream": True, "tools": [apply_patch()]}
    kinds = []
    for event in await bench.events(request):
        item = event.get("item")
        kinds.append(f"{event['type']} {item.get('type', '')}" if item else event["type"])
    wanted = (
        "response.output_item.added custom_tool_call",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done custom_tool_call",
    )
    missing = [kind.removeprefix("response.") for kind in wanted if kind not in kinds]
    leaked = [kind for kind in kinds if "function_call" in kind]
    return f"no {missing[0]}" if missing else "function events leak" if leaked else "yes"


async def namespaces(bench: Bench, websocket: bool) -> str:
    """An MCP tool, which Codex declares in a namespace, is called."""

    def script(request: Received) -> Any:
        outputs = request.outputs
        return f"it says {outputs[-1]}" if outputs else Call(_forecast(request), {"city": "Oslo"})

    bench.say(script)
    # (A model without apply_patch: a gateway that refuses grammars can show what it does with namespaces.)
    _, run = await bench.codex(model="plain", websocket=websocket, mcp=True)
    return _has_called(run)


async def tool_search(bench: Bench, websocket: bool) -> str:
    """Codex holds its MCP tools back behind tool_search; the model searches, then calls what it got."""

    def script(request: Received) -> Any:
        match len(request.outputs):
            case 0:
                return Call("tool_search", {"query": "weather forecast"})
            case 1:
                return Call(_forecast(request), {"city": "Oslo"})
            case _:
                return f"it says {request.outputs[-1]}"

    bench.say(script)
    _, run = await bench.codex(model="search", websocket=websocket, mcp=True)
    if bench.upstream.requests and "tool_search" not in bench.upstream.requests[0].functions:
        return "the model never sees it"
    return _has_called(run)


async def continuation(bench: Bench, websocket: bool) -> str:
    """A second turn on one WebSocket continues the first by its id, with `store: false`."""
    if not websocket:
        return "no WebSocket"
    bench.say(lambda request: f"answer {len(request.texts)}")
    url = f"{bench.served.url}/responses"
    headers = {"Authorization": f"Bearer {KEY}"}
    first = {"type": "response.create", "model": "freeform", "store": False, "input": "apple"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.ws_connect(url) as socket,
    ):
        id = await _ended(socket, first)
        await _ended(socket, {**first, "input": "pear", "previous_response_id": id})
    seen = bench.upstream.requests[-1].texts
    return "yes" if seen == ["apple", "pear"] else f"the model sees {seen}"


async def _ended(socket: aiohttp.ClientWebSocketResponse, request: JSON) -> str:
    await socket.send_json(request)
    async for message in socket:
        event = json.loads(message.data)
        if event["type"] == "response.completed":
            return str(event["response"]["id"])
        if event["type"] in ("error", "response.failed"):
            raise RuntimeError(json.dumps(event)[:120])
    raise RuntimeError(f"closed with {socket.close_code}")


def _forecast(request: Received) -> str:
    found = [name for name in request.functions if name.endswith("get_forecast")]
    return found[0] if found else "get_forecast"


def _has_called(run: Any) -> str:
    calls = [item for item in run.items if item["type"] == "mcp_tool_call"]
    if any(call.get("tool") == "get_forecast" for call in calls) and "sunny" in str(run.events):
        return "yes"
    return _why(run)


def _why(run: Any) -> str:
    for event in reversed(run.events):
        if event["type"] in ("error", "turn.failed"):
            error = event.get("error") or event
            return f"error: {' '.join(str(error.get('message')).split())[:90]}"
    return "no"


CHECKS: dict[str, Callable[[Bench, bool], Awaitable[str]]] = {
    "apply_patch edits a file, key `input`": patching("input"),
    "… key `patch`": patching("patch"),
    "… key `diff`": patching("diff"),
    "… key `content`": patching("content"),
    "custom call's events complete": custom_events,
    "MCP tool in a namespace is called": namespaces,
    "tool_search by the client": tool_search,
    "WebSocket: next turn by id, `store: false`": continuation,
}


async def column(name: str) -> dict[str, str]:
    """All checks of one gateway."""
    script: list[Script] = [lambda request: "hello"]
    cells = {}
    async with ScriptedUpstream(lambda request: script[0](request), strictly=False) as upstream:
        with ExitStack() as stack:
            peer = PEERS.get(name)
            start = gateway(upstream.url, "chat") if peer is None else peer.serve(upstream.url)
            served = await asyncio.to_thread(stack.enter_context, start)
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            )
            bench = Bench(folder, served, upstream, script)
            websocket = peer is None or "websocket" in peer.transports
            for title, check in CHECKS.items():
                try:
                    cells[title] = await asyncio.wait_for(check(bench, websocket), 2 * SECONDS)
                except Exception as error:  # what a gateway cannot do is a cell too
                    cells[title] = f"{type(error).__name__} {error}"[:110]
                print(f"{name}: {title}: {cells[title]}", file=sys.stderr, flush=True)
    return cells


async def main() -> None:
    columns = {name: await column(name) for name in ("responses-gateway", *installed())}
    print(f"| | {' | '.join(columns)} |\n| --- |{' --- |' * len(columns)}")
    for title in CHECKS:
        print(f"| {title} | {' | '.join(cells[title] for cells in columns.values())} |")


if __name__ == "__main__":
    asyncio.run(main())
