"""A real PostgreSQL server of our own: made in a temporary folder, and ended by its id."""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

START_SECONDS = 30.0
# Debian keeps the programs of each version off the PATH.
DEBIAN = "/usr/lib/postgresql/*/bin"


class PostgresServer:
    """The server; `url` names its database `postgres`.

    with PostgresServer() as server: …
    """

    def __init__(self) -> None:
        self._bin = _programs()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "PostgresServer":
        self._folder = Path(tempfile.mkdtemp(prefix="gateway-postgres-"))
        # PostgreSQL refuses to run as root.
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            entry = pwd.getpwnam("postgres")
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self._run("initdb", "-D", str(self._folder / "data"), "-U", "gateway", "-A", "trust", "-N")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"postgresql://gateway:secret@127.0.0.1:{self._port}/postgres"
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop(signal.SIGINT)
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            with (self._folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        *(self._bin / "postgres", "-D", self._folder / "data"),
                        *("-p", str(self._port), "-k", self._folder),
                        *("-c", "listen_addresses=127.0.0.1"),
                    ],
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    start_new_session=True,
                    **self._user,
                )
            while self._process.poll() is None:
                if not self._is_asked("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self._port)):
                    return
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
            # After a kill the children of the one before may still hold its memory.
            assert time.monotonic() < deadline, (self._folder / "log").read_text()

    def stop(self, with_signal: int) -> None:
        """SIGINT: it ends its sessions; SIGQUIT: as in a crash; SIGKILL: one."""
        assert self._process is not None
        self._process.send_signal(with_signal)
        self._process.wait(START_SECONDS)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self._folder,
            check=False,
            **self._user,
        )
        assert done.returncode == 0, done.stderr

    def _is_asked(self, program: str, *arguments: str) -> int:
        return subprocess.run([self._bin / program, *arguments], check=False).returncode


def _programs() -> Path:
    found = [
        Path(folder) for folder in sorted(glob.glob(DEBIAN)) if Path(folder, "initdb").exists()
    ]
    if found:
        return found[-1]
    program = shutil.which("initdb")
    assert program, "PostgreSQL's server is needed: apt install postgresql"
    return Path(program).resolve().parent
