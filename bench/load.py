"""The client side of a benchmark: streams over SSE and WebSocket, and what they tell."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from bench.processes import Served

TRANSPORTS = ("sse", "websocket")
_END = b'"type":"response.completed"'
_HEAD = 60


def body(transport: str, **more: Any) -> dict[str, Any]:
    """A create request."""
    request = {"model": "bench", "input": "say something", "store": False, **more}
    if transport == "websocket":
        return {"type": "response.create", **request}
    return {**request, "stream": True}


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
            if _END in message.data[:_HEAD]:
                return


def connect(session: aiohttp.ClientSession, base: str) -> Any:
    """A Responses socket; frames stay bytes."""
    return session.ws_connect(f"{base}/responses", max_msg_size=0, compress=0, decode_text=False)


EVENTS = {"sse": sse_events, "websocket": websocket_events}


async def drain(session: aiohttp.ClientSession, base: str, transport: str, **more: Any) -> int:
    """One whole stream; how many events it had."""
    total = 0
    async for count in EVENTS[transport](session, base, **more):
        total += count
    return total


async def load(server: Served, transport: str, streams: int, seconds: float) -> dict[str, float]:
    """Runs streams one after the other in `streams` lanes until the time is up."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await drain(session, server.url, transport)
        began, cpu = time.perf_counter(), server.cpu_seconds()
        end = began + seconds

        async def lane() -> int:
            total = 0
            while time.perf_counter() < end:
                total += await drain(session, server.url, transport)
            return total

        events = sum(await asyncio.gather(*(lane() for _ in range(streams))))
        wall, used = time.perf_counter() - began, server.cpu_seconds() - cpu
    return {
        "events": events,
        "us_per_event": used / events * 1e6,
        "events_per_core_second": events / used if used else 0.0,
        "events_per_second": events / wall,
        "rss_mb": server.rss_mb(),
    }


async def _timed_direct(session: aiohttp.ClientSession, direct: str) -> float:
    began = time.perf_counter()
    async with session.post(f"{direct}/chat/completions", json={"model": "bench"}) as answer:
        await answer.content.readany()
        seen = time.perf_counter()
        await answer.read()
    return seen - began


async def _timed(session: aiohttp.ClientSession, base: str) -> float:
    began = time.perf_counter()
    seen = 0.0
    async for _count in sse_events(session, base):
        seen = seen or time.perf_counter()
    return seen - began


async def _timed_on(socket: aiohttp.ClientWebSocketResponse) -> float:
    """A turn on a socket that is open already, as agents do it."""
    began = time.perf_counter()
    await socket.send_json(body("websocket"))
    await socket.receive()
    seen = time.perf_counter()
    while _END not in (await socket.receive()).data[:_HEAD]:
        pass
    return seen - began


async def first_event(
    server: Served, direct: str, transport: str, rounds: int, streams: int = 1
) -> dict[str, float]:
    """Milliseconds to the first event, through the server and directly, in turns.

    Args:
        server: under test.
        direct: the upstream's URL.
        transport: `sse` or `websocket`.
        rounds: pairs of requests for each stream.
        streams: how many do so at the same time.
    """
    through: list[float] = []
    straight: list[float] = []

    async def lane(session: aiohttp.ClientSession) -> None:
        async with connect(session, server.url) as socket:
            for _ in range(rounds):
                straight.append(await _timed_direct(session, direct))
                if transport == "websocket":
                    through.append(await _timed_on(socket))
                else:
                    through.append(await _timed(session, server.url))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(lane(session) for _ in range(streams)))
    added = sorted(a - b for a, b in zip(through, straight, strict=True))
    return {
        "direct_p50_ms": statistics.median(straight) * 1e3,
        "added_p50_ms": (statistics.median(through) - statistics.median(straight)) * 1e3,
        "added_p99_ms": added[int(len(added) * 0.99)] * 1e3,
    }


async def idle_kb(server: Served, count: int) -> float:
    """Memory of one idle WebSocket, in KB."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        before = server.rss_mb()
        sockets = [await connect(session, server.url) for _ in range(count)]
        held = server.rss_mb() - before
        for socket in sockets:
            await socket.close()
    return held * 1024 / count


async def turn_cpu_ms(server: Served, items: int, item_chars: int, turns: int) -> float:
    """CPU of one full resend over WebSocket with a history of `items` messages, in ms."""
    text = ("the quick brown fox \n" * (item_chars // 20 + 1))[:item_chars]
    history = [
        {"type": "message", "role": "user" if n % 2 == 0 else "assistant", "content": text}
        for n in range(items)
    ]
    history.append({"type": "message", "role": "user", "content": "go on"})
    async with (
        aiohttp.ClientSession() as session,
        connect(session, server.url) as socket,
    ):
        began = 0.0
        for turn in range(turns + 1):
            if turn == 1:  # the first one warms up
                began = server.cpu_seconds()
            await socket.send_json(body("websocket", input=history))
            while _END not in (await socket.receive()).data[:_HEAD]:
                pass
        return (server.cpu_seconds() - began) / turns * 1e3
