"""What is measured: each function returns rows for the table, with figures and the work that they belong to.

Gateway and bare relay stand side by side and take turns in slices, so that what else the machine does hits both.
"""

import asyncio
import random
import statistics
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

from bench import load
from bench.peers import Peer
from bench.processes import Served, bare, gateway, upstream

JSON = dict[str, Any]
Row = dict[str, Any]

DIALECTS = ("chat", "responses")
RATE = 50.0
PACED_EVENTS = 100
BURST_EVENTS = 1_500
# kind, rate, streams, transports
WORKS = (
    ("text", RATE, (1, 32, 128), load.TRANSPORTS),
    ("text", 0.0, (1, 32, 128), load.TRANSPORTS),
    ("patch", RATE, (32,), ("websocket",)),
    ("patch", 0.0, (32,), ("websocket",)),
)
SLICES = 2
FIRST_ROUNDS = 200
FIRST_STREAMS = 32
FIRST_ROUNDS_PACED = 6
FIRST_EVENTS_PACED = 25
IDLE_SOCKETS = 400
ITEM_CHARS = 500
MB_ITEM_CHARS = 5_000
HISTORIES = (2, 50, 200)
TURNS = 40
# A peer that needs longer for its share of the work gets no figure.
PEER_SECONDS = 40.0


def tools(kind: str) -> JSON:
    """What a request declares so that the answer of this kind is one to it."""
    return {"tools": [load.apply_patch()]} if kind == "patch" else {}


async def throughput(seconds: float) -> list[Row]:
    """CPU per event of gateway and bare relay."""
    rows: list[Row] = []
    for dialect in DIALECTS:
        for kind, rate, counts, transports in WORKS:
            with ExitStack() as stack:
                events = PACED_EVENTS if rate else BURST_EVENTS
                model = stack.enter_context(upstream(events, rate, kind))
                servers = [
                    stack.enter_context(gateway(model.url, dialect)),
                    stack.enter_context(bare(model.url, dialect)),
                ]
                for streams in counts:
                    for transport in transports:
                        work = {"work": "paced" if rate else "burst", "kind": kind}
                        where = {"dialect": dialect, "transport": transport, "streams": streams}
                        figures = await in_turns(servers, transport, streams, seconds, kind)
                        rows.append({**work, **where, **figures})
    return rows


async def in_turns(
    servers: list[Served], transport: str, streams: int, seconds: float, kind: str
) -> Row:
    """The same work for each server in slices, one after the other; sums of each."""
    sums: dict[str, dict[str, float]] = {server.name: {} for server in servers}
    for number in range(SLICES):
        for server in servers if number % 2 == 0 else reversed(servers):
            found = await load.load(server, transport, streams, seconds / SLICES, **tools(kind))
            total = sums[server.name]
            for key, value in found.items():
                is_memory = key == "rss_mb"
                total[key] = (
                    max(value, total.get(key, 0)) if is_memory else value + total.get(key, 0)
                )
    return {name: _costs(total) for name, total in sums.items()}


def _costs(total: dict[str, float]) -> dict[str, float]:
    return {
        "us_per_event": total["cpu"] / total["events"] * 1e6,
        "events_per_core_second": total["events"] / total["cpu"],
        "events_per_second": total["events"] / total["wall"],
        "rss_mb": total["rss_mb"],
        "events": total["events"],
    }


async def latency() -> list[Row]:
    """Added time to the first event, alone and among paced streams."""
    rows: list[Row] = []
    works = (
        (1, 0.0, 20, FIRST_ROUNDS),
        (FIRST_STREAMS, RATE, FIRST_EVENTS_PACED, FIRST_ROUNDS_PACED),
    )
    for streams, rate, events, rounds in works:
        with (
            upstream(events, rate) as model,
            gateway(model.url, "chat") as served,
            bare(model.url, "chat") as relay,
        ):
            for transport in load.TRANSPORTS:
                row: Row = {"work": "first event", "transport": transport, "streams": streams}
                for server in (served, relay):
                    row[server.name] = await first_event(
                        server,
                        model.url,
                        transport,
                        rounds,
                        streams,
                        events / rate if rate else 0.0,
                    )
                rows.append(row)
    return rows


async def first_event(
    server: Served, direct: str, transport: str, rounds: int, streams: int = 1, spread: float = 0.0
) -> dict[str, float]:
    """Milliseconds to the first event that the server adds, as the distance of quantiles.

    Args:
        server: under test.
        direct: the upstream's URL.
        transport: `sse` or `websocket`.
        rounds: pairs of a request straight to the model server and one through the server, for each stream.
        streams: how many do so at the same time.
        spread: seconds within which they begin: agents do not begin all at once.
    """
    through: list[float] = []
    straight: list[float] = []
    rng = random.Random(streams)

    async def lane(delay: float) -> None:
        await asyncio.sleep(delay)
        if transport == "sse":
            for _ in range(rounds):
                straight.append(await load.first_direct(session, direct))
                through.append(await load.first_sse(session, server.url))
            return
        async with load.connect(session, server.url) as socket:
            for _ in range(rounds):
                straight.append(await load.first_direct(session, direct))
                through.append(await load.first_frame(socket))

    async with load.client() as session:
        await load.drain(session, server.url, transport)
        await asyncio.gather(*(lane(rng.random() * spread) for _ in range(streams)))
    return {
        "direct_p50_ms": _quantile(straight, 0.5),
        "added_p50_ms": _quantile(through, 0.5) - _quantile(straight, 0.5),
        "added_p99_ms": _quantile(through, 0.99) - _quantile(straight, 0.99),
    }


def _quantile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[int(len(seconds) * share)] * 1e3


async def memory_and_turns() -> list[Row]:
    """Idle memory, and CPU per turn by history."""
    rows: list[Row] = []
    with upstream(2, 0.0) as model, gateway(model.url, "chat") as served:
        rows.append({"work": "idle", "rss_mb": served.rss_mb()})
        rows.append({"work": "idle socket", "kb": await load.idle_kb(served, IDLE_SOCKETS)})
        with bare(model.url, "chat") as relay:
            for how, measure in (("resend", load.resend_ms), ("continued", load.continued_ms)):
                works = [(items, ITEM_CHARS) for items in HISTORIES]
                for items, chars in [*works, (HISTORIES[-1], MB_ITEM_CHARS)]:
                    row: Row = {
                        "work": "turn",
                        "how": how,
                        "items": items,
                        "kb": items * chars / 1e3,
                    }
                    row["gateway"] = await _median(measure, served, items, chars)
                    row["bare"] = await _median(load.resend_ms, relay, items, chars)
                    rows.append(row)
    return rows


async def _median(
    measure: Callable[[Served, int, int, int], Coroutine[Any, Any, float]],
    server: Served,
    items: int,
    chars: int,
) -> float:
    return statistics.median([await measure(server, items, chars, TURNS // 4) for _ in range(4)])


async def workers(seconds: float) -> list[Row]:
    """One worker and two, driven by one load generator."""
    rows: list[Row] = []
    for work, rate, events in (("paced", RATE, PACED_EVENTS), ("burst", 0.0, BURST_EVENTS)):
        with upstream(events, rate) as model:
            for count in (1, 2):
                with gateway(model.url, "chat", "--workers", str(count)) as served:
                    await load.load(served, "sse", 8, 0)
                    figures = _costs(await load.load(served, "sse", 128, seconds))
                rows.append({"work": "workers", "of": work, "count": count, **figures})
    return rows


async def peers(seconds: float, installed: dict[str, Peer]) -> list[Row]:
    """Every other gateway that is installed, and this one with the same work."""
    rows: list[Row] = []
    for name, peer in installed.items():
        for work, rate, events in (("paced", RATE, PACED_EVENTS), ("burst", 0.0, 1_000)):
            with upstream(events, rate) as model, ExitStack() as stack:
                try:
                    server = stack.enter_context(peer.serve(model.url))
                except RuntimeError as error:
                    rows.append({"work": "peer", "name": name, "error": str(error)})
                    break
                ours = stack.enter_context(gateway(model.url, peer.dialect))
                for transport in peer.transports:
                    row: Row = {"work": "peer", "name": name, "of": work, "transport": transport}
                    for served in (server, ours):
                        try:
                            async with asyncio.timeout(PEER_SECONDS):
                                await load.load(served, transport, 1, 0)
                                found = await load.load(served, transport, FIRST_STREAMS, seconds)
                        except Exception as error:  # what a peer cannot do is a row too
                            row["error"] = f"{type(error).__name__}: {error}"[:200]
                            break
                        row["peer" if served is server else "gateway"] = _costs(found)
                    rows.append(row)
    return rows
