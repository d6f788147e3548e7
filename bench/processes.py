"""The processes of a benchmark: each says where it listens, each is ended by its own pid.

CPU and memory are those of the measured process and its children alone, so that figures hold while the others keep the
other core busy. CPU is the scheduler's own count in nanoseconds: /proc/…/stat has ticks of 10 ms.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
# LiteLLM takes a quarter of a minute to start.
START_SECONDS = 90.0
# Settings of this shell are no part of a measurement.
_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("RESPONSES_GATEWAY_")}


@dataclass(frozen=True)
class Served:
    """A server under test: its base URL with /v1, and its pid."""

    name: str
    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """Time on a core so far, of all threads of it and of its children."""
        return sum(_nanoseconds(pid) for pid in _family(self.pid)) / 1e9

    def rss_mb(self) -> float:
        """Resident memory."""
        return sum(_rss_kb(pid) for pid in _family(self.pid)) / 1024


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in _tasks(pid):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found += _family(int(child))
    return found


def _tasks(pid: int) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def _nanoseconds(pid: int) -> int:
    total = 0
    for task in _tasks(pid):
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total


def _rss_kb(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    return 0


@contextlib.contextmanager
def child(command: list[str], **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A process in the repository's folder, ended with the context."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=HERE.parent,
        env={**_ENVIRONMENT, **environ},
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _line_with_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        found = [word for word in line.split() if word.startswith("http://127.0.0.1:")]
        if found:
            return found[0]
    raise SystemExit(f"{process.args} ended with {process.wait()} before it listened")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_answers(url: str, process: subprocess.Popen[str]) -> None:
    """Wait for any HTTP answer from `url`.

    Raises:
        RuntimeError: there is none.
    """
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).close()  # a URL of our own
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{process.args} did not listen in time")


@contextlib.contextmanager
def upstream(events: int, rate: float, kind: str = "text") -> Iterator[Served]:
    """The model server: `events` deltas an answer, at once (rate 0) or `rate` a second."""
    script = str(HERE / "upstream.py")
    command = [sys.executable, script, "--events", str(events), "--rate", str(rate)]
    with child([*command, "--kind", kind]) as process:
        yield Served("upstream", _line_with_url(process), process.pid)


@contextlib.contextmanager
def gateway(url: str, dialect: str, *more: str) -> Iterator[Served]:
    """The gateway in front of `url`."""
    command = [sys.executable, "-m", "gateway", "serve", "--port", "0", "--upstream", url]
    options = ["--upstream-api", dialect, "--store", "memory", *more]
    with tempfile.TemporaryDirectory() as home, child([*command, *options], HOME=home) as process:
        yield Served("gateway", _line_with_url(process).removesuffix("/v1") + "/v1", process.pid)


@contextlib.contextmanager
def bare(url: str, dialect: str) -> Iterator[Served]:
    """A byte relay on the same stack: what aiohttp itself costs."""
    command = [sys.executable, str(HERE / "bare.py"), url, dialect]
    with child(command) as process:
        yield Served("bare", _line_with_url(process), process.pid)
