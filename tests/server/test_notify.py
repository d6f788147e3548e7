"""What systemd hears, on a real datagram socket: one process, and a parent with its workers."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.server.notify import Notifier, State, notifier_of, read_message
from gateway.server.workers import run_workers


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The service manager's end, at a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.settimeout(5)
        yield end


def heard(manager: socket.socket) -> dict[str, str]:
    return read_message(manager.recv(8192))


def all_heard(manager: socket.socket) -> list[dict[str, str]]:
    """Everything that has arrived."""
    manager.setblocking(False)
    found = []
    while True:
        try:
            found.append(heard(manager))
        except BlockingIOError:
            manager.settimeout(5)
            return found


def test_the_life_of_a_service(manager: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "3000000", "HOME": "/"}
    with notifier_of(environ) as notifier:
        assert environ == {"HOME": "/"}  # no child is to speak for us
        assert notifier.is_heard
        assert notifier.watchdog_seconds == 3.0
        notifier.ready(State("upstream h:1", turns=0, sockets=1))
        notifier.status(State("upstream h:1", turns=1, sockets=2))
        notifier.status(State("upstream h:1", turns=1, sockets=2))  # nothing new: not told
        notifier.alive()
        notifier.stopping(State("upstream h:1", turns=2, sockets=0))
        notifier.failed("Port 1 is in use:\nchoose another.")
    messages = all_heard(manager)
    assert [message.get("STATUS") for message in messages] == [
        "Serving: upstream h:1; 0 turns run; 1 socket open",
        "Serving: upstream h:1; 1 turn runs; 2 sockets open",
        None,
        "Stopping: upstream h:1; 2 turns run; 0 sockets open",
        "Port 1 is in use: choose another.",
    ]
    assert messages[0]["READY"] == "1"
    assert messages[2] == {"WATCHDOG": "1"}
    assert messages[3]["STOPPING"] == "1"


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(f"\0responses-gateway-test-{os.getpid()}")
        end.settimeout(5)
        address = "@" + end.getsockname()[1:].decode()
        with notifier_of({"NOTIFY_SOCKET": address}) as notifier:
            notifier.ready(State())
        assert heard(end)["READY"] == "1"


@pytest.mark.parametrize("address", ["", "vsock:2:1", "/no/such/socket"])
def test_nobody_to_tell_is_no_error(address: str) -> None:
    notifier = notifier_of({"NOTIFY_SOCKET": address} if address else {})
    assert not notifier.is_heard
    notifier.ready(State())


@pytest.mark.parametrize(
    ("watchdog", "seconds"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({"WATCHDOG_USEC": "-1"}, 0.0),
    ],
)
def test_whom_the_watchdog_watches(
    manager: socket.socket, watchdog: dict[str, str], seconds: float
) -> None:
    environ = {"NOTIFY_SOCKET": manager.getsockname(), **watchdog}
    with notifier_of(environ) as notifier:
        assert notifier.watchdog_seconds == seconds
    assert not environ


def test_a_manager_that_is_gone_does_not_stop_us(
    manager: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    with notifier_of({"NOTIFY_SOCKET": manager.getsockname()}) as notifier:
        manager.close()
        notifier.alive()
    assert "could not be told WATCHDOG=1" in caplog.text


async def test_only_a_live_event_loop_says_so() -> None:
    """Each ping is one round of the loop: while that is blocked, nothing is said."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        states = iter([State(turns=1), State(turns=1), *(State(turns=2) for _ in range(1000))])
        notifier = Notifier(ours, watchdog_seconds=0.02)
        async with notifier.telling(lambda: next(states)):
            pings = 0
            while pings < 3:
                pings += read_message(await loop.sock_recv(theirs, 8192)).get("WATCHDOG") == "1"
            all_heard(theirs)
            theirs.settimeout(0.1)  # blocks the loop for five pings
            with pytest.raises(TimeoutError):
                theirs.recv(8192)
            theirs.setblocking(False)
            assert read_message(await loop.sock_recv(theirs, 8192)) == {"WATCHDOG": "1"}
        all_heard(theirs)
        theirs.settimeout(0.05)
        with pytest.raises(TimeoutError):  # and nothing after the end
            theirs.recv(8192)


def in_child(manager: socket.socket, work: object) -> int:
    """Run a parent with two workers in a process of its own; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 9
    try:
        notifier = notifier_of({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000000"})
        code = int(run_workers(2, work, notifier))  # type: ignore[arg-type]  # a Work
    finally:
        os._exit(code)


def test_the_parent_speaks_for_its_workers(manager: socket.socket) -> None:
    """Ready when both are, alive when both are, and their turns summed up."""
    go, say = os.pipe()  # what the second worker waits for

    def work(index: int, notifier: Notifier) -> None:
        stop, stopped = os.pipe()
        signal.signal(signal.SIGTERM, lambda number, frame: os.write(stopped, b"x"))
        if index == 1:
            os.read(go, 1)
        notifier.ready(State("upstream h:1", turns=index, sockets=2))
        notifier.alive()
        if index == 1:
            os.read(go, 1)
            notifier.alive()
            notifier.status(State("upstream h:1", turns=5, sockets=2))
        os.read(stop, 1)
        notifier.stopping(State("upstream h:1"))

    pid = in_child(manager, work)
    while (first := heard(manager))["X_TURNS"] != "0" or first["X_SOCKETS"] != "2":
        pass  # the first worker alone
    assert "READY" not in first
    assert not [m for m in all_heard(manager) if "READY" in m or "WATCHDOG" in m]
    os.write(say, b"x")
    ready = heard(manager)
    assert ready["READY"] == "1"
    assert ready["STATUS"] == "Serving: upstream h:1; 1 turn runs; 4 sockets open"
    assert heard(manager) == {"WATCHDOG": "1"}
    os.write(say, b"x")
    # Only one of two has said again that it is alive: the parent does not.
    assert heard(manager)["STATUS"] == "Serving: upstream h:1; 5 turns run; 4 sockets open"
    os.kill(pid, signal.SIGTERM)
    stopping = heard(manager)
    assert stopping["STOPPING"] == "1"
    assert stopping["STATUS"].startswith("Stopping: ")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    os.close(go)
    os.close(say)


def test_a_worker_that_ends_by_itself_ends_all(manager: socket.socket) -> None:
    def work(index: int, notifier: Notifier) -> None:
        if index == 1:
            raise RuntimeError("broken")
        signal.pause()

    pid = in_child(manager, work)
    assert heard(manager)["STOPPING"] == "1"
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
