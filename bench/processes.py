"""The processes of a benchmark: each prints where it listens, each is ended by its own pid.

CPU and memory are read from /proc of the measured process alone, so that figures hold while the peers keep the other
core busy.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Served:
    """A server under test: its base URL with /v1, and its pid."""

    name: str
    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


@contextlib.contextmanager
def _child(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=HERE.parent,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(30)


def _line_with_url(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    for line in child.stdout:
        found = [word for word in line.split() if word.startswith("http://127.0.0.1:")]
        if found:
            return found[0]
    raise SystemExit(f"{child.args} ended with {child.wait()} before it listened")


@contextlib.contextmanager
def upstream(events: int, rate: float) -> Iterator[Served]:
    """The model server: `events` texts an answer, at once (rate 0) or `rate` a second."""
    script = str(HERE / "upstream.py")
    command = [sys.executable, script, "--events", str(events), "--rate", str(rate)]
    with _child(command) as child:
        yield Served("upstream", _line_with_url(child), child.pid)


@contextlib.contextmanager
def gateway(url: str, dialect: str, *more: str) -> Iterator[Served]:
    """The gateway in front of `url`."""
    command = [sys.executable, "-m", "gateway", "serve", "--port", "0", "--upstream", url]
    options = ["--upstream-api", dialect, "--store", "memory", *more]
    with _child([*command, *options]) as child:
        yield Served("gateway", _line_with_url(child).removesuffix("/v1") + "/v1", child.pid)


@contextlib.contextmanager
def bare(url: str, dialect: str) -> Iterator[Served]:
    """A byte relay on the same stack: what aiohttp itself costs."""
    command = [sys.executable, str(HERE / "bare.py"), url, dialect]
    with _child(command) as child:
        yield Served("bare", _line_with_url(child), child.pid)
