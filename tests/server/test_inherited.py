"""Sockets passed by whoever started the gateway, on real descriptors."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from gateway.app import Gateway, url_of
from gateway.config import Config, ConfigError, UpstreamConfig
from gateway.server.inherited import inherited_sockets
from tests.scripted import ScriptedUpstream
from tests.server.clients import run_turn

# High enough that no other test has a descriptor there.
FIRST = 400
Pass = Callable[..., dict[str, str]]


@pytest.fixture
def passed() -> Iterator[Pass]:
    """Put copies of sockets where systemd would put them, and say so in an environment."""
    with ExitStack() as stack:

        def put(*sockets: socket.socket, **variables: str) -> dict[str, str]:
            for index, given in enumerate(sockets):
                stack.enter_context(given)
                os.dup2(given.fileno(), FIRST + index)
            environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(sockets))}
            return {**environ, **variables}

        yield put


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    os.close(fd)
    return False


def test_several_sockets(passed: Pass, tmp_path: Path) -> None:
    first = listening()
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(tmp_path / "gateway.sock"))
    local.listen()
    environ = passed(first, local, LISTEN_FDNAMES="http:local", HOME="/")
    taken = inherited_sockets(environ, first=FIRST)
    try:
        assert [found.getsockname() for found in taken] == [
            first.getsockname(),
            str(tmp_path / "gateway.sock"),
        ]
        assert [found.fileno() for found in taken] == [FIRST, FIRST + 1]
        assert not any(found.get_inheritable() for found in taken)
        assert not any(found.getblocking() for found in taken)
    finally:
        for found in taken:
            found.close()
    assert environ == {"HOME": "/"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "1", "LISTEN_PID": "me", "LISTEN_FDNAMES": "a"},
    ],
)
def test_nothing_was_passed_to_this_process(environ: dict[str, str]) -> None:
    given = dict(environ)
    assert inherited_sockets(given, first=FIRST) == []
    assert given == {}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"LISTEN_FDS": "one"}, "LISTEN_FDS='one' is no number"),
        ({"LISTEN_FDS": "-1"}, "is no number"),
        ({"LISTEN_FDNAMES": "a:b"}, "does not name LISTEN_FDS=1 sockets"),
        ({"LISTEN_FDS": "2"}, "number 2 (descriptor 401) is none"),
    ],
)
def test_variables_that_cannot_be(passed: Pass, variables: dict[str, str], words: str) -> None:
    environ = passed(listening(), **variables)
    with pytest.raises(ConfigError) as raised:
        inherited_sockets(environ, first=FIRST)
    assert words in str(raised.value)
    closed(FIRST)


def test_what_cannot_be_listened_on_is_named_and_closed(passed: Pass) -> None:
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    cases = [
        (datagram, "passed as odd is no stream socket: use ListenStream="),
        (socket.socket(), "passed as odd does not listen: use Accept=no"),
    ]
    for odd, words in cases:
        environ = passed(listening(), odd, LISTEN_FDNAMES="good:odd")
        with pytest.raises(ConfigError) as raised:
            inherited_sockets(environ, first=FIRST)
        assert words in str(raised.value)
        assert closed(FIRST)
        assert closed(FIRST + 1)


def test_a_file_is_no_socket(passed: Pass, tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    os.dup2(file, FIRST)
    os.close(file)
    with pytest.raises(ConfigError) as raised:
        inherited_sockets(passed(LISTEN_FDS="1"), first=FIRST)
    assert "number 1 (descriptor 400) is none" in str(raised.value)
    assert not closed(FIRST)


async def test_a_gateway_on_a_port_and_on_a_path(tmp_path: Path) -> None:
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(tmp_path / "gateway.sock"))
    local.listen()
    port = listening()
    for bound in (local, port):
        bound.setblocking(False)
    async with ScriptedUpstream(lambda request: "hello") as upstream:
        config = Config(upstream=UpstreamConfig(url=upstream.url, api="chat"))
        async with Gateway(config, local, port) as gateway:
            assert gateway.url == f"http://127.0.0.1:{port.getsockname()[1]}"
            body = {"model": "scripted", "input": "hi"}
            reply = await run_turn("json", gateway.url, body)
            assert reply.text == "hello"
            connector = aiohttp.UnixConnector(str(tmp_path / "gateway.sock"))
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.post("http://localhost/v1/responses", json=body) as answer,
            ):
                assert (await answer.json())["status"] == "completed"


def test_the_address_of_a_path() -> None:
    with socket.socket(socket.AF_UNIX) as local:
        local.bind("\0responses-gateway-test-url")
        assert url_of(local).startswith("unix:")


def test_an_inherited_socket_beyond_this_machine_needs_keys() -> None:
    with socket.create_server(("0.0.0.0", 0)) as everywhere, pytest.raises(ConfigError) as raised:
        Gateway(Config(), everywhere)
    assert "needs API keys" in str(raised.value)
