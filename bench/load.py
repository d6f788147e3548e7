"""The client side of a benchmark: streams over SSE and WebSocket, and how long they take."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from bench.peers import KEY
from bench.processes import Served

JSON = dict[str, Any]

TRANSPORTS = ("sse", "websocket")
GRAMMAR = Path(__file__).parents[1] / "tests/grammars/apply_patch.lark"
_ENDS = (b'"response.completed"', b'"response.failed"', b'"type":"error"', b'"type": "error"')


def apply_patch() -> JSON:
    """The custom tool as the Codex CLI declares it."""
    definition = GRAMMAR.read_text()
    return {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edits files.",
        "format": {"type": "grammar", "syntax": "lark", "definition": definition},
    }


def body(transport: str, **more: Any) -> JSON:
    """A create request."""
    request = {"model": "bench", "input": "say something", "store": False, **more}
    if transport == "websocket":
        return {"type": "response.create", **request}
    return {**request, "stream": True}


def client() -> aiohttp.ClientSession:
    """As many connections as are wanted."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), headers={"Authorization": f"Bearer {KEY}"}
    )


async def sse_events(session: aiohttp.ClientSession, base: str, **more: Any) -> AsyncIterator[int]:
    """Yields the number of events that each read brought."""
    async with session.post(f"{base}/responses", json=body("sse", **more)) as answer:
        answer.raise_for_status()
        async for chunk in answer.content.iter_any():
            yield chunk.count(b"data: {")


async def websocket_events(
    session: aiohttp.ClientSession, base: str, **more: Any
) -> AsyncIterator[int]:
    """One frame an event, on a socket of its own."""
    async with connect(session, base) as socket:
        await socket.send_json(body("websocket", **more))
        async for message in socket:
            yield 1
            if is_end(message.data):
                return


def is_end(frame: bytes) -> bool:
    """Whether a frame is the last one of a turn."""
    return any(end in frame for end in _ENDS)


def connect(session: aiohttp.ClientSession, base: str) -> Any:
    """A Responses socket; frames stay bytes."""
    return session.ws_connect(f"{base}/responses", max_msg_size=0, compress=0, decode_text=False)


EVENTS = {"sse": sse_events, "websocket": websocket_events}


async def drain(session: aiohttp.ClientSession, base: str, transport: str, **more: Any) -> int:
    """One whole stream; how many events it had."""
    total = 0
    async for count in EVENTS[transport](session, base, **more):
        total += count
    if not total:
        raise RuntimeError("a stream without an event")
    return total


async def load(
    server: Served, transport: str, streams: int, seconds: float, **more: Any
) -> dict[str, float]:
    """Runs streams one after the other in `streams` lanes until the time is up."""
    async with client() as session:
        began, cpu = time.perf_counter(), server.cpu_seconds()
        end = began + seconds

        async def lane() -> int:
            total = 0
            while not total or time.perf_counter() < end:
                total += await drain(session, server.url, transport, **more)
            return total

        events = sum(await asyncio.gather(*(lane() for _ in range(streams))))
        wall, used = time.perf_counter() - began, server.cpu_seconds() - cpu
        rss = server.rss_mb()
    return {"events": events, "cpu": used, "wall": wall, "rss_mb": rss}


async def first_direct(session: aiohttp.ClientSession, direct: str) -> float:
    """Seconds to the first bytes of the model server itself."""
    began = time.perf_counter()
    async with session.post(f"{direct}/chat/completions", json={"model": "bench"}) as answer:
        await answer.content.readany()
        seen = time.perf_counter()
        await answer.read()
    return seen - began


async def first_sse(session: aiohttp.ClientSession, base: str) -> float:
    """Seconds to the first bytes of a stream."""
    began = time.perf_counter()
    seen = 0.0
    async for _count in sse_events(session, base):
        seen = seen or time.perf_counter()
    return seen - began


async def first_frame(socket: aiohttp.ClientWebSocketResponse) -> float:
    """The same for a turn on a socket that is open already, as agents do it."""
    began = time.perf_counter()
    await socket.send_json(body("websocket"))
    await socket.receive()
    seen = time.perf_counter()
    while not is_end((await socket.receive()).data):
        pass
    return seen - began


async def idle_kb(server: Served, count: int) -> float:
    """Memory of one idle WebSocket, in KB."""
    async with client() as session:
        before = server.rss_mb()
        sockets = [await connect(session, server.url) for _ in range(count)]
        held = server.rss_mb() - before
        for socket in sockets:
            await socket.close()
    return held * 1024 / count


def history(items: int, chars: int) -> list[JSON]:
    """A conversation of `items` messages; no two are equal."""
    line = "the quick brown fox \n"
    texts = [f"{n} " + line * (chars // len(line)) for n in range(items)]
    return [
        {"type": "message", "role": "assistant" if n % 2 else "user", "content": text}
        for n, text in enumerate(texts)
    ]


async def resend_ms(server: Served, items: int, chars: int, turns: int) -> float:
    """CPU of one turn that sends its whole history of `items` messages, in ms."""
    request = body("websocket", input=[*history(items, chars), *history(1, 20)])
    async with client() as session, connect(session, server.url) as socket:
        await _turn(socket, request)
        began = server.cpu_seconds()
        for _ in range(turns):
            await _turn(socket, request)
        return (server.cpu_seconds() - began) / turns * 1e3


async def continued_ms(server: Served, items: int, chars: int, turns: int) -> float:
    """CPU of one turn that continues a history of `items` messages by its id, in ms."""
    async with client() as session, connect(session, server.url) as socket:
        last = await _turn(socket, body("websocket", input=history(items, chars)))
        began = server.cpu_seconds()
        for _ in range(turns):
            more = {"previous_response_id": last["response"]["id"], "input": history(1, 20)}
            last = await _turn(socket, body("websocket", **more))
        return (server.cpu_seconds() - began) / turns * 1e3


async def _turn(socket: aiohttp.ClientWebSocketResponse, request: JSON) -> JSON:
    await socket.send_json(request)
    while True:
        message = await socket.receive()
        if is_end(message.data):
            answer: JSON = message.json()
            return answer
