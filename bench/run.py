"""What the gateway costs: CPU per event, events per second of one core, added time to the first event.

    python bench/run.py [--seconds 5] [--json FILE]

Three processes: a pre-encoded upstream (bench/upstream.py), the gateway, and this client. CPU time is read from /proc
of the gateway's process alone, so that the figures hold on a machine whose other core is busy with the peers.

| row | work |
| --- | --- |
| single | many paced streams, each event a write of its own: what agents and model servers really do |
| burst | few streams as fast as they go: how far one core can be driven |
| first event | one stream at a time, alternating with the same request sent to the upstream itself |
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
STREAMS_PACED = 64
RATE = 50.0
STREAMS_BURST = 8
BURST_EVENTS = 10_000
FIRST_EVENT_ROUNDS = 300
TRANSPORTS = ("sse", "websocket")
DIALECTS = ("chat", "responses")
TARGETS = {"single": 15_000, "burst": 80_000, "first_ms": 1.5}


def cpu_seconds(pid: int) -> float:
    """User and system time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A child that prints where it listens; ended by its own pid."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(10)


@contextlib.contextmanager
def upstream(events: int, rate: float) -> Iterator[str]:
    command = (sys.executable, str(HERE / "upstream.py"), "--events", str(events))
    with process(*command, "--rate", str(rate)) as child:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1"


@contextlib.contextmanager
def gateway(url: str, dialect: str) -> Iterator[tuple[str, int]]:
    """The gateway in front of `url`: its own URL and its pid."""
    command = [sys.executable, "-m", "gateway", "serve", "--port", "0", "--upstream", url]
    with process(*command, "--upstream-api", dialect, "--store", "memory") as child:
        assert child.stdout is not None
        for line in child.stdout:
            found = next((word for word in line.split() if word.startswith("http://127")), None)
            if found and url not in found:
                yield found.removesuffix("/v1") + "/v1", child.pid
                return
    raise SystemExit("the gateway did not start")


def body(transport: str) -> dict[str, Any]:
    request = {"model": "bench", "input": "say something", "store": False}
    if transport == "websocket":
        return {"type": "response.create", **request}
    return {**request, "stream": True}


async def sse_events(session: aiohttp.ClientSession, base: str) -> AsyncIterator[int]:
    """Yields the number of events that each read brought."""
    async with session.post(f"{base}/responses", json=body("sse")) as answer:
        answer.raise_for_status()
        async for chunk in answer.content.iter_any():
            yield chunk.count(b"\ndata: ")


async def websocket_events(session: aiohttp.ClientSession, base: str) -> AsyncIterator[int]:
    async with session.ws_connect(f"{base}/responses", max_msg_size=0, compress=0) as socket:
        await socket.send_json(body("websocket"))
        async for message in socket:
            yield 1
            if '"type":"response.completed"' in message.data[:40]:
                return


EVENTS = {"sse": sse_events, "websocket": websocket_events}


async def drain(session: aiohttp.ClientSession, base: str, transport: str) -> int:
    total = 0
    async for count in EVENTS[transport](session, base):
        total += count
    return total


async def load(
    base: str, pid: int, transport: str, streams: int, seconds: float
) -> dict[str, float]:
    """Runs streams one after the other in `streams` lanes until the time is up."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await drain(session, base, transport)
        began, cpu = time.perf_counter(), cpu_seconds(pid)
        end = began + seconds

        async def lane() -> int:
            total = 0
            while time.perf_counter() < end:
                total += await drain(session, base, transport)
            return total

        events = sum(await asyncio.gather(*(lane() for _ in range(streams))))
        wall, used = time.perf_counter() - began, cpu_seconds(pid) - cpu
    return {
        "events": events,
        "us_per_event": used / events * 1e6,
        "events_per_core_second": events / used,
        "events_per_second": events / wall,
    }


async def timed_direct(session: aiohttp.ClientSession, direct: str) -> float:
    began = time.perf_counter()
    async with session.post(f"{direct}/chat/completions", json={"model": "bench"}) as answer:
        await answer.content.readany()
        seen = time.perf_counter()
        await answer.read()
    return seen - began


async def timed(session: aiohttp.ClientSession, base: str, transport: str) -> float:
    began = time.perf_counter()
    seen = 0.0
    async for _count in EVENTS[transport](session, base):
        seen = seen or time.perf_counter()
    return seen - began


async def timed_on(socket: aiohttp.ClientWebSocketResponse) -> float:
    """A turn on a socket that is open already, as agents do it."""
    began = time.perf_counter()
    await socket.send_json(body("websocket"))
    await socket.receive()
    seen = time.perf_counter()
    while '"type":"response.completed"' not in (await socket.receive()).data[:40]:
        pass
    return seen - began


async def first_event(base: str, direct: str, transport: str) -> dict[str, float]:
    """Milliseconds to the first event, through the gateway and directly, in turns."""
    through: list[float] = []
    straight: list[float] = []
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{base}/responses", compress=0) as socket,
    ):
        for _ in range(FIRST_EVENT_ROUNDS):
            straight.append(await timed_direct(session, direct))
            is_socket = transport == "websocket"
            through.append(
                await (timed_on(socket) if is_socket else timed(session, base, transport))
            )
    added = sorted(a - b for a, b in zip(through, straight, strict=True))
    return {
        "direct_p50_ms": statistics.median(straight) * 1e3,
        "added_p50_ms": (statistics.median(through) - statistics.median(straight)) * 1e3,
        "added_p99_ms": added[int(len(added) * 0.99)] * 1e3,
    }


async def measure(seconds: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for dialect in DIALECTS:
        for kind, events, rate, streams in (
            ("single", int(RATE * 2), RATE, STREAMS_PACED),
            ("burst", BURST_EVENTS, 0.0, STREAMS_BURST),
        ):
            with upstream(events, rate) as url, gateway(url, dialect) as (base, pid):
                for transport in TRANSPORTS:
                    figures = await load(base, pid, transport, streams, seconds)
                    rows.append(
                        {"work": kind, "dialect": dialect, "transport": transport, **figures}
                    )
    with upstream(20, 0.0) as url, gateway(url, "chat") as (base, _pid):
        for transport in TRANSPORTS:
            figures = await first_event(base, url, transport)
            rows.append(
                {"work": "first event", "dialect": "chat", "transport": transport, **figures}
            )
    return rows


def show(row: dict[str, Any]) -> str:
    head = f"{row['work']:<12} {row['dialect']:<10} {row['transport']:<10}"
    if row["work"] == "first event":
        return (
            f"{head} added p50 {row['added_p50_ms']:.2f} ms (target {TARGETS['first_ms']}), "
            f"p99 {row['added_p99_ms']:.2f} ms, direct p50 {row['direct_p50_ms']:.2f} ms"
        )
    return (
        f"{head} {row['us_per_event']:6.1f} us CPU/event, {row['events_per_core_second']:9,.0f} "
        f"events per core second (target {TARGETS[row['work']]:,}), {row['events_per_second']:9,.0f} /s seen"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = asyncio.run(measure(args.seconds))
    for row in rows:
        print(show(row))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
