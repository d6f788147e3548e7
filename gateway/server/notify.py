"""What the service manager is told: ready, how it goes, still alive, about to end (sd_notify(3)).

A message is one datagram of KEY=value lines to the socket in NOTIFY_SOCKET. Without such a socket
nobody is told, and nothing else differs. The workers of one gateway tell their parent in the same
words, which sums up: systemd listens to one process only (NotifyAccess=main).
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import msgspec

log = logging.getLogger(__name__)

# A status changes with each turn: `systemctl status` need not know it sooner.
STATUS_SECONDS = 2.0
# systemd takes a message in microseconds; when it does not, the turns are more important.
SEND_SECONDS = 0.2
# One line that is read by people; the sentence of an error may quote a long path.
MAX_STATUS_CHARS = 500


class State(msgspec.Struct, frozen=True):
    """How it goes.

    Attributes:
        upstream: the model server, and whether it answers.
        turns: that run now.
        sockets: WebSockets that are open.
    """

    upstream: str = ""
    turns: int = 0
    sockets: int = 0

    def __str__(self) -> str:
        turns = "1 turn runs" if self.turns == 1 else f"{self.turns} turns run"
        sockets = "1 socket open" if self.sockets == 1 else f"{self.sockets} sockets open"
        return "; ".join(part for part in (self.upstream, turns, sockets) if part)


Describe = Callable[[], State]


class Notifier:
    """Tells whoever supervises this process.

    Args:
        channel: a connected socket that keeps messages apart; None: nobody is told.
        watchdog_seconds: silence after which this process is taken for dead; 0: never.
    """

    def __init__(self, channel: socket.socket | None = None, watchdog_seconds: float = 0.0) -> None:
        self._channel = channel
        self.watchdog_seconds = watchdog_seconds
        self._phase = "Starting"
        self._told = ""
        if channel is not None:
            channel.settimeout(SEND_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._channel is not None:
            self._channel.close()

    @property
    def is_heard(self) -> bool:
        """Whether anybody is told at all."""
        return self._channel is not None

    def ready(self, state: State) -> None:
        """It listens, and what it talks to is known."""
        self._phase = "Serving"
        self._send("READY=1", *self._status(state))

    def stopping(self, state: State) -> None:
        """It takes nothing new; turns that run may end."""
        self._phase = "Stopping"
        self._send("STOPPING=1", *self._status(state))

    def failed(self, sentence: str) -> None:
        """It cannot go on, and why: `systemctl status` shows that too."""
        self._send(f"STATUS={_one_line(sentence)}")

    def alive(self) -> None:
        """The watchdog may wait for another while."""
        self._send("WATCHDOG=1")

    def status(self, state: State) -> None:
        """How it goes, when that has changed."""
        lines = self._status(state)
        if lines[0] != self._told:
            self._send(*lines)

    @asynccontextmanager
    async def telling(self, describe: Describe) -> AsyncIterator[None]:
        """While the context is open, the event loop itself tells that it is alive, and how it goes."""
        if not self.is_heard:
            yield
            return
        tasks = [asyncio.create_task(_every(STATUS_SECONDS, lambda: self.status(describe())))]
        if self.watchdog_seconds:
            # Half of it: what sd_watchdog_enabled(3) recommends.
            tasks.append(asyncio.create_task(_every(self.watchdog_seconds / 2, self.alive)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _status(self, state: State) -> tuple[str, ...]:
        """The last three are for a parent that sums up; systemd leaves out what begins with X_."""
        return (
            f"STATUS={_one_line(f'{self._phase}: {state}')}",
            f"X_UPSTREAM={_one_line(state.upstream)}",
            f"X_TURNS={state.turns}",
            f"X_SOCKETS={state.sockets}",
        )

    def _send(self, *lines: str) -> None:
        if self._channel is None:
            return
        for line in lines:
            if line.startswith("STATUS="):
                self._told = line
        try:
            self._channel.send("\n".join(lines).encode())
        except OSError as error:  # it may be restarted itself; the turns go on
            log.warning("the service manager could not be told %s: %s", lines[0], error)


def notifier_of(environ: MutableMapping[str, str]) -> Notifier:
    """The notifier of this process. What it needs leaves the environment: children are not meant."""
    address = environ.pop("NOTIFY_SOCKET", "")
    watchdog = _watchdog_seconds(environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", ""))
    if not address:
        return Notifier()
    if address[0] not in "/@":
        log.warning("NOTIFY_SOCKET=%s is no path and no abstract name: nobody is told", address)
        return Notifier()
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        channel.connect("\0" + address[1:] if address[0] == "@" else address)
    except OSError as error:
        channel.close()
        log.warning("NOTIFY_SOCKET=%s cannot be reached: %s", address, error)
        return Notifier()
    return Notifier(channel, watchdog)


def read_message(message: bytes) -> dict[str, str]:
    """The KEY=value lines of one message."""
    lines = message.decode(errors="replace").split("\n")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def state_in(fields: dict[str, str]) -> State | None:
    """The state that a worker's message carries."""
    if "X_TURNS" not in fields:
        return None
    return State(fields["X_UPSTREAM"], int(fields["X_TURNS"]), int(fields["X_SOCKETS"]))


def _watchdog_seconds(micros: str, pid: str) -> float:
    """0 when there is no watchdog, or when it watches another process."""
    if not micros.isascii() or not micros.isdigit():
        return 0.0
    if pid and pid != str(os.getpid()):
        return 0.0
    return int(micros) / 1e6


async def _every(seconds: float, tell: Callable[[], None]) -> None:
    while True:
        tell()
        await asyncio.sleep(seconds)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_STATUS_CHARS]
