"""Turns that are recorded: scenarios for the tests of recordings, and for those kept in tests/recordings."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from gateway.app import Gateway
from gateway.config import AccessConfig, Config, RecordConfig, ServerConfig, UpstreamConfig
from gateway.server.recording_lines import read_lines
from tests.scripted import (
    Answer,
    Call,
    Reasoning,
    Received,
    Refuse,
    ScriptedUpstream,
    Text,
    break_off,
    hang,
)
from tests.server.clients import JSON, run_turn, stream, ws_turn

GRAMMAR = (Path(__file__).parents[1] / "grammars" / "apply_patch.lark").read_text()
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+grün\n*** End Patch"
APPLY_PATCH: JSON = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}
SEARCH: JSON = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}
WEATHER: JSON = {
    "type": "namespace",
    "name": "mcp__weather",
    "description": "Weather.",
    "tools": [{"type": "function", "name": "forecast", "parameters": {"type": "object"}}],
}
REQUEST: JSON = {"model": "scripted", "input": "hi", "tools": [APPLY_PATCH, SEARCH, WEATHER]}

Scenario = Callable[[Gateway, ScriptedUpstream], Awaitable[object]]


@contextlib.asynccontextmanager
async def recording(
    url: str, folder: Path, *, api: Any = "chat", keys_file: str = "", **record: Any
) -> AsyncIterator[Gateway]:
    """A gateway that records. When the context has ended, all files are there."""
    config = Config(
        server=ServerConfig(port=0, shutdown_seconds=0.5, heartbeat_seconds=0.05),
        upstream=UpstreamConfig(url=url, api=api),
        access=AccessConfig(keys_file=keys_file),
        record=RecordConfig(dir=str(folder), **record),
    )
    async with Gateway(config) as gateway:
        yield gateway


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def lines_of(file: Path) -> list[JSON]:
    return read_lines(file.read_bytes())


async def patch(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    await run_turn("ws", gateway.url, REQUEST)


async def search(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    """A search, its output, and a call of what it has found, continued on one socket."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses", max_msg_size=0) as socket,
    ):
        request = {**REQUEST, "tools": [SEARCH], "store": False}
        first = await ws_turn(socket, request)
        call = first.response["output"][0]
        output = {
            "type": "tool_search_output",
            "call_id": call["call_id"],
            "execution": "client",
            "tools": [WEATHER],
        }
        follow = {"previous_response_id": first.response["id"], "input": [output]}
        await ws_turn(socket, {**request, **follow})


async def over_sse(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    await run_turn("sse", gateway.url, REQUEST)


async def over_json(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    await run_turn("json", gateway.url, REQUEST)


async def warm_up(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    await run_turn("ws", gateway.url, {**REQUEST, "generate": False})


async def refused_here(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    orphan = {"type": "function_call_output", "call_id": "nobody", "output": "x"}
    await run_turn("sse", gateway.url, {**REQUEST, "input": [orphan]})


async def with_silence(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    """Two heartbeats in the middle."""
    beats = 0
    async with aiohttp.ClientSession() as session:
        async for event in stream(session, "sse", gateway.url, REQUEST):
            beats += event["type"] == "response.in_progress"
            if beats == 3:
                upstream.release()


async def left_by_its_client(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    async with aiohttp.ClientSession() as session:
        async for event in stream(session, "ws", gateway.url, REQUEST):
            if event["type"] == "response.output_text.delta":
                break
    await upstream.until(lambda it: it.disconnects)


async def compacted(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    """A summary in the middle of a response, and a turn that begins with its sealed item."""
    request = {
        **REQUEST,
        "input": [
            {"type": "message", "role": "user", "content": "a long story " * 500},
            {"type": "message", "role": "user", "content": "and now?"},
        ],
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    }
    reply = await run_turn("sse", gateway.url, request)
    follow = [*reply.response["output"], {"type": "message", "role": "user", "content": "more"}]
    await run_turn("sse", gateway.url, {**REQUEST, "input": follow})


async def in_the_background(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    body = {**REQUEST, "background": True, "stream": True}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/responses", json=body) as answer,
    ):
        assert b"response.completed" in await answer.read()


def summary_or_echo(request: Received) -> Any:
    asks = request.texts[-1].startswith("Summarise this conversation")
    return "what was said" if asks else "an answer"


def by_refusing_patterns(request: Received) -> Any:
    function = request.functions["apply_patch"]
    if "pattern" in function["parameters"]["properties"]["input"]:
        return Refuse(400, {"error": {"message": "pattern is not supported"}})
    return "fine"


def found_and_called(request: Received) -> Any:
    if "mcp__weather__forecast" in request.functions:
        return Call("mcp__weather__forecast", {})
    return Call("tool_search", {"query": "weather"})


# Name -> what the model server says, what the client does, how many turns that are.
SCENARIOS: dict[str, tuple[Any, Scenario, int]] = {
    "patch": ([[Text("I edit."), Call("apply_patch", {"input": PATCH})]], patch, 1),
    "fenced_patch": ([Call("apply_patch", {"input": f"```\n{PATCH}\n```"})], over_sse, 1),
    "invalid_patch": ([Call("apply_patch", {"input": "no patch"})], over_json, 1),
    "tool_search": (found_and_called, search, 2),
    "broken_off": ([break_off([Call("apply_patch", {"input": PATCH})], after=5)], patch, 1),
    "length": ([Answer([Reasoning("hm"), "a long ans"], finish="length")], over_sse, 1),
    "parallel": ([[Call("nobody_knows", "{"), Call("mcp__weather__forecast", {})]], over_sse, 1),
    "refused_upstream": ([Refuse(429, {"error": {"message": "slow"}})], over_sse, 1),
    "refused_here": ([], refused_here, 1),
    "warm_up": ([], warm_up, 1),
    "silence": ([hang(["word by word"], after=2)], with_silence, 1),
    "client_left": ([hang(["word by word, and on and on"], after=5)], left_by_its_client, 1),
    "compaction": (summary_or_echo, compacted, 2),
    "background": (["in its own time"], in_the_background, 1),
}


async def record(name: str, folder: Path, *, api: str = "chat", split: int = 0) -> list[Path]:
    """Play one scenario; its recordings, in order."""
    script, play, count = SCENARIOS[name]
    async with (
        ScriptedUpstream(script, split=split) as upstream,
        recording(upstream.url, folder, api=api) as gateway,
    ):
        async with asyncio.timeout(15):
            await play(gateway, upstream)
    found = files(folder)
    assert len(found) == count, found
    return found
