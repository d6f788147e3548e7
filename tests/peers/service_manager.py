"""A service manager for tests: holds sockets, hears what its service says, and starts it by hand."""

import asyncio
import os
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.server.notify import read_message
from tests.peers.processes import Tail, end

REPO = Path(__file__).resolve().parents[2]
SYSTEMD = REPO / "systemd"
GATEWAY = (sys.executable, "-m", "gateway", "serve")
Process = asyncio.subprocess.Process
# Copies high up first, so that no move overwrites what is still to be moved.
_LAUNCHER = """
import fcntl, os, sys
copies = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1].split(",")]
for place, fd in enumerate(copies, start=3):
    os.dup2(fd, place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(copies)))
os.execvp(sys.argv[2], sys.argv[2:])
"""


class NotifySocket:
    """What systemd would bind to NOTIFY_SOCKET; all that was said is kept."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self.said: list[dict[str, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(self.path))

    async def until(self, key: str, value: str = "") -> dict[str, str]:
        """The next message with this key, whose value has this in it."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            while True:
                self.said.append(read_message(await loop.sock_recv(self._socket, 8192)))
                if value in self.said[-1].get(key, "\0"):
                    return self.said[-1]

    def close(self) -> None:
        self._socket.close()


def environment(folder: Path, **more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RESPONSES_GATEWAY_")}
    home = str(folder)
    return {**clean, "PYTHONPATH": str(REPO), "HOME": home, "XDG_STATE_HOME": home, **more}


@asynccontextmanager
async def program(
    command: Sequence[str], env: dict[str, str], *, fds: Sequence[int] = ()
) -> AsyncIterator[tuple[Process, Tail]]:
    """A process that is ended at the end, and what it has said."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env,
        pass_fds=tuple(fds),
        start_new_session=True,
    )
    assert process.stdout is not None
    tail = Tail(process.stdout)
    try:
        yield process, tail
    except BaseException:
        await end(process)
        print(f"--- {command[0]}\n{await tail.finish()}", file=sys.stderr)
        raise
    finally:
        await end(process)
        await tail.finish()


def with_sockets(fds: Sequence[int], command: Sequence[str]) -> list[str]:
    """The command as systemd would start it: sockets from descriptor 3 on, and the pid that it gets."""
    return [sys.executable, "-c", _LAUNCHER, ",".join(map(str, fds)), *command]


def units(folder: Path, where: Path, program_path: str) -> list[Path]:
    """Copies of the units whose program exists on this machine, for `systemd-analyze`."""
    folder.mkdir()
    found = []
    for unit in sorted(where.glob("responses-gateway.s*")):
        text = unit.read_text(encoding="utf-8")
        text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={program_path}", text)
        (folder / unit.name).write_text(text, encoding="utf-8")
        found.append(folder / unit.name)
    return found


def tool(name: str, package: str) -> str:
    """The path of a program."""
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    assert path, f"{name} is needed: apt-get install {package}"
    return path


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
