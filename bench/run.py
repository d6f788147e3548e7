"""What the gateway costs, beside a bare byte relay on the same stack in the same run: `make bench`.

    python -m bench.run [--seconds 3] [--only throughput] [--json bench/results/latest.json]

| row | work |
| --- | --- |
| paced | streams of 50 events a second, each event a write of its own: what agents and model servers really do |
| burst | streams as fast as they go: how far one core can be driven |
| first event | through the server, alternating with the same request to the model server itself |
| idle, turn | memory of an idle gateway and socket; CPU of a turn by the length of its history |
| workers | one process and two |
| peer | other gateways, if installed (bench/peers.py); their ratio is to this gateway |

CPU is that of the measured process. Figures of a run belong together; the ratio to the bare relay is what counts.
A row's `text` or `patch` is what the model says: words, or half of it the arguments of an `apply_patch` call.
"""

import argparse
import asyncio
import json
import platform
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp

from bench import figures
from bench.peers import installed
from bench.table import TITLE, show

Row = dict[str, Any]
Part = Callable[[float], Coroutine[Any, Any, list[Row]]]

PARTS: dict[str, Part] = {
    "throughput": figures.throughput,
    "latency": lambda seconds: figures.latency(),
    "turns": lambda seconds: figures.memory_and_turns(),
    "workers": figures.workers,
    "peers": lambda seconds: figures.peers(seconds, installed()),
}


async def measure(parts: list[str], seconds: float) -> list[Row]:
    """Every row of these parts, the table's lines as they come."""
    rows: list[Row] = []
    for part in parts:
        found = await PARTS[part](seconds)
        rows += found
        print("\n".join(show(found)), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results/latest.json")
    args = parser.parse_args()
    began = time.monotonic()
    print(TITLE, flush=True)
    rows = asyncio.run(measure(args.only, args.seconds))
    print(f"{time.monotonic() - began:.0f} s")
    about = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "aiohttp": aiohttp.__version__,
        "machine": platform.platform(),
    }
    args.json.parent.mkdir(exist_ok=True)
    args.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
