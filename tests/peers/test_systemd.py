"""The units by systemd's own tools, and the gateway as a service: activated, ready, alive, drained."""

import asyncio
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from gateway.config import SHUTDOWN_SECONDS
from gateway.server.websocket import CLOSE_SECONDS
from tests.peers.processes import run
from tests.peers.service_manager import (
    GATEWAY,
    SYSTEMD,
    NotifySocket,
    environment,
    free_port,
    program,
    tool,
    units,
    with_sockets,
)
from tests.scripted import ScriptedUpstream, hang
from tests.server.clients import run_turn

MAX_EXPOSURE = 2.0
HELLO = {"model": "scripted", "input": "hi"}


@pytest.mark.parametrize("manager", ["system", "user"])
async def test_systemd_finds_no_fault_with_the_units(tmp_path: Path, manager: str) -> None:
    where = SYSTEMD if manager == "system" else SYSTEMD / "user"
    files = units(tmp_path / "units", where, sys.executable)
    assert len(files) == 2
    done = await run(
        [tool("systemd-analyze", "systemd"), f"--{manager}", "verify", *map(str, files)],
        env=environment(tmp_path, XDG_RUNTIME_DIR=str(tmp_path)),
        cwd=tmp_path,
        seconds=60,
    )
    assert (done.code, done.stdout + done.stderr) == (0, "")


async def test_the_service_exposes_little(tmp_path: Path) -> None:
    service, _ = units(tmp_path / "units", SYSTEMD, sys.executable)
    threshold = str(round(MAX_EXPOSURE * 10))
    done = await run(
        [
            *(tool("systemd-analyze", "systemd"), "security", "--no-pager", "--offline=true"),
            *(f"--threshold={threshold}", str(service)),
        ],
        env=environment(tmp_path),
        cwd=tmp_path,
        seconds=60,
    )
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    print(f"systemd-analyze security: {found[1]}")
    assert done.code == 0
    assert float(found[1]) <= MAX_EXPOSURE


@pytest.mark.parametrize("folder", [SYSTEMD, SYSTEMD / "user"])
def test_a_stop_outlasts_the_drain(folder: Path) -> None:
    text = (folder / "responses-gateway.service").read_text(encoding="utf-8")
    found = re.search(r"(?m)^TimeoutStopSec=(\d+)$", text)
    assert found
    # Sockets, then HTTP requests, then background responses.
    assert int(found[1]) > 3 * (SHUTDOWN_SECONDS + CLOSE_SECONDS)


@pytest.mark.parametrize("workers", [1, 2])
async def test_activated_by_the_first_connection_and_drained_at_the_end(
    tmp_path: Path, workers: int
) -> None:
    """All that systemd sees of a service's life, in one go."""
    port = free_port()
    manager = NotifySocket(tmp_path)
    variables = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000"}
    env = environment(tmp_path, **variables)
    kept = [f"--setenv={name}" for name in (*variables, "PYTHONPATH", "HOME", "XDG_STATE_HOME")]
    activate = tool("systemd-socket-activate", "systemd")
    script = ["hello", hang(["a long story"], after=2)]
    async with ScriptedUpstream(script) as upstream:
        command = [
            *(activate, f"--listen=127.0.0.1:{port}", *kept, *GATEWAY),
            *("--upstream", upstream.url, "--workers", str(workers)),
        ]
        async with program(command, env) as (process, tail):
            await tail.until("Listening on")
            assert not manager.said
            url = f"http://127.0.0.1:{port}"
            # Nobody has started it: this connection does, and waits in the queue until it is there.
            assert (await run_turn("ws", url, HELLO)).text == "hello"
            ready = await manager.until("READY", "1")
            host = upstream.url.split("/")[2]
            assert ready["STATUS"].startswith(f"Serving: upstream {host}; ")
            for _ in range(3):
                await manager.until("WATCHDOG", "1")
            turn = asyncio.create_task(run_turn("sse", url, HELLO))
            await upstream.until(lambda it: it.hanging)
            await manager.until("STATUS", "1 turn runs")
            process.send_signal(signal.SIGTERM)
            stopping = await manager.until("STOPPING", "1")
            assert "Stopping: " in stopping["STATUS"]
            assert "1 turn runs" in stopping["STATUS"]
            await manager.until("WATCHDOG", "1")  # it is not taken for dead while it drains
            assert not turn.done()
            upstream.release()
            assert (await turn).text == "a long story"
            assert await process.wait() == 0
        assert sum("READY" in message for message in manager.said) == 1
        upstream.check()
    manager.close()


@pytest.mark.parametrize("workers", [1, 2])
async def test_no_connection_is_refused_while_it_restarts(tmp_path: Path, workers: int) -> None:
    """The test holds the socket, as systemd does; a client comes while nothing else does."""
    manager = NotifySocket(tmp_path)
    env = environment(tmp_path, NOTIFY_SOCKET=str(manager.path))
    async with ScriptedUpstream(lambda request: "hello") as upstream:
        with socket.create_server(("127.0.0.1", 0)) as held:
            url = f"http://127.0.0.1:{held.getsockname()[1]}"
            serve = [*GATEWAY, "--upstream", upstream.url, "--workers", str(workers)]
            command = with_sockets([held.fileno()], serve)
            async with program(command, env, fds=[held.fileno()]) as (process, _):
                await manager.until("READY", "1")
                assert (await run_turn("json", url, HELLO)).text == "hello"
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
            waiting = [asyncio.create_task(run_turn(way, url, HELLO)) for way in ("ws", "sse")]
            with socket.create_connection(held.getsockname()):  # connects at once: nothing refuses
                pass
            async with program(command, env, fds=[held.fileno()]) as (process, _):
                await manager.until("READY", "1")
                assert [(await turn).text for turn in waiting] == ["hello", "hello"]
    manager.close()


async def test_it_serves_every_socket_that_it_is_given(tmp_path: Path) -> None:
    manager = NotifySocket(tmp_path)
    env = environment(tmp_path, NOTIFY_SOCKET=str(manager.path))
    async with ScriptedUpstream(lambda request: "hello") as upstream:
        with (
            socket.create_server(("127.0.0.1", 0)) as first,
            socket.create_server(("127.0.0.1", 0)) as second,
        ):
            fds = [first.fileno(), second.fileno()]
            command = with_sockets(fds, [*GATEWAY, "--upstream", upstream.url])
            async with program(command, env, fds=fds):
                await manager.until("READY", "1")
                for held in (first, second):
                    url = f"http://127.0.0.1:{held.getsockname()[1]}"
                    assert (await run_turn("sse", url, HELLO)).text == "hello"
    manager.close()


async def test_a_start_that_fails_says_why_where_people_look(tmp_path: Path) -> None:
    manager = NotifySocket(tmp_path)
    env = environment(tmp_path, NOTIFY_SOCKET=str(manager.path), RESPONSES_GATEWAY_PROT="1")
    async with program(GATEWAY, env) as (process, _):
        said = await manager.until("STATUS", "RESPONSES_GATEWAY_PORT")
        assert "READY" not in said
        assert await process.wait() == 2
    manager.close()
