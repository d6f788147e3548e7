"""What the gateway costs, beside a bare byte relay on the same stack in the same run.

    python -m bench.run [--seconds 3] [--json bench/results/latest.json]

| row | work |
| --- | --- |
| paced | streams of 50 events a second, each event a write of its own: what agents and model servers really do |
| burst | streams as fast as they go: how far one core can be driven |
| first event | alternating with the same request sent to the upstream itself |
| idle, turn | memory of an idle gateway and socket; CPU of a turn by the length of its history |

CPU is that of the measured process. Figures of a run belong together; the ratio to the bare relay is what counts.
"""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from bench.load import TRANSPORTS, first_event, idle_kb, load, turn_cpu_ms
from bench.processes import bare, gateway, upstream

DIALECTS = ("chat", "responses")
RATE = 50.0
SERVERS = {"gateway": gateway, "bare": bare}
# name, events an answer, rate, streams
WORKS = (
    ("paced", 100, RATE, 32),
    ("paced", 100, RATE, 128),
    ("burst", 5_000, 0.0, 1),
    ("burst", 5_000, 0.0, 32),
)
TARGET_RATIO = {"paced": 1.25, "burst": 1.6}
TARGET_CORE = {"paced": 20_000, "burst": 120_000}
FIRST_ROUNDS = 200
IDLE_SOCKETS = 200
HISTORIES = ((2, 500), (50, 500), (200, 500), (200, 5_000))
TURNS = 30


async def throughput(seconds: float) -> list[dict[str, Any]]:
    """CPU per event of gateway and bare relay, alternating."""
    rows: list[dict[str, Any]] = []
    for dialect in DIALECTS:
        for work, events, rate, streams in WORKS:
            with upstream(events, rate) as model:
                for name, server in SERVERS.items():
                    with server(model.url, dialect) as served:
                        for transport in TRANSPORTS:
                            figures = await load(served, transport, streams, seconds)
                            rows.append(
                                {
                                    "work": work,
                                    "streams": streams,
                                    "dialect": dialect,
                                    "transport": transport,
                                    "server": name,
                                    **figures,
                                }
                            )
    return rows


async def latency() -> list[dict[str, Any]]:
    """Added time to the first event."""
    rows: list[dict[str, Any]] = []
    with upstream(20, 0.0) as model, gateway(model.url, "chat") as served:
        for transport in TRANSPORTS:
            figures = await first_event(served, model.url, transport, FIRST_ROUNDS)
            rows.append({"work": "first event", "streams": 1, "transport": transport, **figures})
    with upstream(20, RATE) as model, gateway(model.url, "chat") as served:
        for transport in TRANSPORTS:
            figures = await first_event(served, model.url, transport, 5, streams=32)
            rows.append({"work": "first event", "streams": 32, "transport": transport, **figures})
    return rows


async def memory_and_turns() -> list[dict[str, Any]]:
    """Idle memory, and CPU per turn by history."""
    rows: list[dict[str, Any]] = []
    with upstream(2, 0.0) as model, gateway(model.url, "chat") as served:
        rows.append({"work": "idle", "rss_mb": served.rss_mb()})
        rows.append({"work": "idle socket", "kb": await idle_kb(served, IDLE_SOCKETS)})
        for items, chars in HISTORIES:
            cpu = await turn_cpu_ms(served, items, chars, TURNS)
            kb = items * chars / 1000
            rows.append({"work": "turn", "items": items, "kb": kb, "cpu_ms": cpu})
    return rows


def show(rows: list[dict[str, Any]]) -> list[str]:
    """One line a figure, beside its target."""
    bare_cost = {_key(row): row["us_per_event"] for row in rows if row.get("server") == "bare"}
    lines: list[str] = []
    for row in rows:
        work = row["work"]
        if work in TARGET_RATIO and row["server"] == "gateway":
            ratio = row["us_per_event"] / bare_cost[_key(row)]
            lines.append(
                f"{work:<6}{row['streams']:>4} streams {row['dialect']:<10}{row['transport']:<10}"
                f"{row['us_per_event']:7.1f} us/event, {ratio:4.2f} x bare "
                f"(target {TARGET_RATIO[work]}), {row['events_per_core_second']:9,.0f} events per "
                f"core second (target {TARGET_CORE[work]:,}), RSS {row['rss_mb']:.0f} MB"
            )
        elif work == "first event":
            lines.append(
                f"first event {row['streams']:>3} streams {row['transport']:<10} added p50 "
                f"{row['added_p50_ms']:.2f} ms (target 0.7), p99 {row['added_p99_ms']:.2f} ms "
                f"(target 3), direct p50 {row['direct_p50_ms']:.2f} ms"
            )
        elif work == "idle":
            lines.append(f"idle        {row['rss_mb']:.0f} MB RSS (target 55)")
        elif work == "idle socket":
            lines.append(f"idle socket {row['kb']:.0f} KB (target 30)")
        elif work == "turn":
            lines.append(
                f"turn        {row['items']:>3} items, {row['kb']:5.0f} KB: "
                f"{row['cpu_ms']:.2f} ms CPU (1 MB target 4)"
            )
    return lines


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["work"], row["streams"], row["dialect"], row["transport"]


async def measure(seconds: float) -> list[dict[str, Any]]:
    """Every row."""
    return [*await throughput(seconds), *await latency(), *await memory_and_turns()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results/latest.json")
    args = parser.parse_args()
    rows = asyncio.run(measure(args.seconds))
    print("\n".join(show(rows)))
    args.json.parent.mkdir(exist_ok=True)
    args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
