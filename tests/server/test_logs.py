"""One line a turn with its ids, for people and as JSON; levels at run time; nothing forged."""

import io
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.config import LogConfig
from gateway.server.facts import turn_ids
from gateway.server.logs import TURN_IDS, HumanFormatter, JSONFormatter, is_journal, set_up
from tests.scripted import Refuse, ScriptedUpstream
from tests.server.clients import JSON, TRANSPORTS, gateway_for, run_turn
from tests.server.test_cli import started

CREATE: JSON = {"model": "scripted", "input": "hi", "client_metadata": {"turn_id": "turn-7"}}


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """Where the log goes; afterwards everything is as it was."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    numbers = (signal.SIGUSR1, signal.SIGUSR2)
    signals = [signal.getsignal(number) for number in numbers]
    yield io.StringIO()
    root.handlers, level = before[0], before[1]
    root.setLevel(level)
    for number, handler in zip(numbers, signals, strict=True):
        signal.signal(number, handler)


def record(message: str, *args: Any, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("gateway.x", level, __file__, 1, message, args, None)
    made.__dict__.update(extra)
    return made


def lines(out: io.StringIO) -> list[JSON]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_turn_is_one_line_with_all_its_ids(transport: str, out: io.StringIO) -> None:
    set_up(LogConfig(format="json"), stream=out)
    async with ScriptedUpstream(["hello"]) as upstream, gateway_for(upstream.url) as gateway:
        reply = await run_turn(transport, gateway.url, CREATE)
    (line,) = [entry for entry in lines(out) if entry["logger"] == "gateway.turn"]
    assert line["connection"].startswith("req_")
    assert line["turn"] == "turn-7"
    assert line["response"] == reply.response["id"]
    assert (line["transport"], line["outcome"]) == (transport, "completed")
    assert line["in"] == reply.response["usage"]["input_tokens"]
    assert 0 <= line["first_ms"] <= line["ms"]
    assert line["level"] == "info"
    if transport != "ws":
        assert line["connection"] == reply.headers["x-request-id"]


async def test_an_error_says_which_and_in_words(out: io.StringIO) -> None:
    set_up(LogConfig(), stream=out)
    refusal = Refuse(429, {"error": {"message": "too\nfast", "code": "slow_down"}})
    async with ScriptedUpstream([refusal]) as upstream, gateway_for(upstream.url) as gateway:
        await run_turn("sse", gateway.url, CREATE)
    (line,) = [entry for entry in out.getvalue().splitlines() if " gateway.turn " in entry]
    for part in ("outcome=failed", "status=429", "code=slow_down", "turn=turn-7", "too\\nfast"):
        assert part in line


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_request_that_becomes_no_turn_is_a_line_too(
    transport: str, out: io.StringIO
) -> None:
    set_up(LogConfig(format="json"), stream=out)
    async with ScriptedUpstream([]) as upstream, gateway_for(upstream.url) as gateway:
        await run_turn(transport, gateway.url, {"model": "m", "input": 5})
    (line,) = [entry for entry in lines(out) if entry["message"] == "refused"]
    assert line["connection"].startswith("req_")
    assert line["status"] == 400
    assert "'input'" in line["error"]


async def test_lines_inside_a_turn_carry_its_ids_too(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(LogConfig(format="json"), stream=out)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("gateway.turn.turn.Turn.receive", broken)
    async with ScriptedUpstream(["hello"]) as upstream, gateway_for(upstream.url) as gateway:
        await run_turn("json", gateway.url, CREATE)
    (bug,) = [entry for entry in lines(out) if "internal error" in entry["message"]]
    assert bug["turn"] == "turn-7"
    assert "ZeroDivisionError" in bug["exception"]
    assert TURN_IDS.get() == {}


@pytest.mark.parametrize(
    ("metadata", "turn"),
    [
        ({"turn_id": "t-1"}, "t-1"),
        ({"x-codex-turn-metadata": '{"turn_id": "t-2"}'}, "t-2"),
        ({"turn_id": "", "x-codex-turn-metadata": '{"turn_id": "t-3"}'}, "t-3"),
        ({"turn_id": "a b\nc"}, None),
        ({"turn_id": "x" * 65}, None),
        ({"turn_id": 5}, None),
        ({"x-codex-turn-metadata": "{"}, None),
        ({"x-codex-turn-metadata": "[]"}, None),
        ("no object", None),
        (None, None),
    ],
)
def test_the_clients_name_of_a_turn_is_kept_when_it_is_one(metadata: Any, turn: str | None) -> None:
    ids = turn_ids("ws req_1", {"client_metadata": metadata})
    assert ids == {"connection": "req_1", **({"turn": turn} if turn else {})}


def test_what_a_client_wrote_begins_no_line_of_its_own() -> None:
    made = record("a %s", "x\n2026 ERROR forged\r\x1b[31m\u2028", fields={"model": 'm"\n'})
    text = HumanFormatter(for_journal=False).format(made)
    assert text.splitlines() == [text]
    assert "\x1b" not in text
    assert text.endswith(r'model="m\"\n"')
    assert json.loads(JSONFormatter().format(made))["model"] == 'm"\n'


def test_journald_gets_priorities_and_no_time() -> None:
    formatter = HumanFormatter(for_journal=True)
    assert formatter.format(record("hi")) == "<6>gateway.x hi"
    assert formatter.format(record("no", level=logging.ERROR)).startswith("<3>")
    try:
        raise ValueError("bad")
    except ValueError:
        made = record("bug", level=logging.ERROR)
        made.exc_info = sys.exc_info()
    assert all(line.startswith("<3>") for line in formatter.format(made).splitlines())


def test_journald_is_known_by_its_stream_not_by_the_variable_alone(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        found = os.fstat(stream.fileno())
        right = f"{found.st_dev}:{found.st_ino}"
        assert is_journal(stream, {"JOURNAL_STREAM": right})
        assert not is_journal(stream, {"JOURNAL_STREAM": "1:1"})
        assert not is_journal(stream, {})
    assert not is_journal(io.StringIO(), {"JOURNAL_STREAM": right})


def test_the_level_changes_at_run_time(out: io.StringIO) -> None:
    set_up(LogConfig(level="warning"), stream=out)
    log = logging.getLogger("gateway.x")
    log.info("before")
    os.kill(os.getpid(), signal.SIGUSR1)
    log.debug("loud")
    os.kill(os.getpid(), signal.SIGUSR2)
    log.info("after")
    log.warning("still")
    assert [line.split(" ")[-1] for line in out.getvalue().splitlines()] == ["loud", "still"]


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_the_signal_reaches_every_worker(workers: str) -> None:
    async with (
        ScriptedUpstream(lambda request: "hello") as upstream,
        started("--upstream", upstream.url, "--workers", workers) as (process, url, _),
    ):
        output = process.stderr
        assert output is not None

        async def is_loud() -> bool:
            """What is odd in a turn is said before its line, to those who want to know."""
            odd = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": []}
            user = {"type": "message", "role": "user", "content": "hi"}
            await run_turn("json", url, {**CREATE, "input": [user, odd]})
            loud = False
            while b"outcome=" not in (line := await output.readline()):
                loud |= b"DEBUG gateway.turn note" in line
            return loud

        assert not await is_loud()
        process.send_signal(signal.SIGUSR1)
        while not await is_loud():
            pass
        # Connections of their own: whoever answers, each worker has heard it.
        assert all([await is_loud() for _ in range(8)])
        process.send_signal(signal.SIGUSR2)
        while await is_loud():
            pass
