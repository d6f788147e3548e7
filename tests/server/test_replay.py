"""Every kept recording, and every kind of turn, is run again without a difference; a change is found."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.app import Gateway
from gateway.cli import main
from gateway.config import Config, RecordConfig, ServerConfig, UpstreamConfig
from gateway.server.differences import first_difference
from gateway.server.recording_lines import NotARecording, read_lines
from gateway.server.replaying import replay
from gateway.turn.turn import Turn
from gateway.wire.json import dumps
from tests.scripted import ScriptedUpstream
from tests.server.clients import JSON, run_turn
from tests.server.recorded import (
    REQUEST,
    SCENARIOS,
    by_refusing_patterns,
    files,
    lines_of,
    record,
)

KEPT = sorted((Path(__file__).parents[1] / "recordings" / "turns").glob("*.jsonl"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_kept_recording_is_run_again_without_a_difference(file: Path) -> None:
    assert replay(lines_of(file)) is None


def test_recordings_are_kept() -> None:
    assert len(KEPT) >= 8


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(("api", "split"), [("chat", 0), ("chat", 1), ("responses", 0)])
async def test_what_was_recorded_is_run_again_without_a_difference(
    name: str, api: str, split: int, tmp_path: Path
) -> None:
    for file in await record(name, tmp_path, api=api, split=split):
        assert replay(lines_of(file)) is None


async def test_a_request_that_was_asked_again_without_its_pattern(tmp_path: Path) -> None:
    async with ScriptedUpstream(by_refusing_patterns) as upstream:
        config = Config(
            server=ServerConfig(port=0, shutdown_seconds=0.5),
            upstream=UpstreamConfig(url=upstream.url, api="chat", profile="llamacpp"),
            record=RecordConfig(dir=str(tmp_path)),
        )
        async with Gateway(config) as gateway:
            reply = await run_turn("ws", gateway.url, REQUEST)
    assert reply.text == "fine"
    (file,) = files(tmp_path)
    lines = lines_of(file)
    assert [line["status"] for line in lines if line["kind"] == "answered"] == [400, 200]
    assert replay(lines) is None


@pytest.fixture
async def lines(tmp_path: Path) -> list[JSON]:
    (file,) = await record("patch", tmp_path)
    return lines_of(file)


def changed(lines: list[JSON], kind: str, old: str, new: str) -> tuple[int, list[JSON]]:
    """(number of the line, lines) with the first line of that kind that has the text changed."""
    for at, line in enumerate(lines):
        text = dumps(line).decode()
        if line["kind"] == kind and old in text:
            altered = read_lines(
                dumps(lines[0]) + b"\n" + dumps(lines[1]) + b"\n" + text.replace(old, new).encode()
            )
            return at + 1, [*lines[:at], altered[2], *lines[at + 1 :]]
    raise AssertionError(f"no {kind} has {old!r}")


@pytest.mark.parametrize(
    ("kind", "old", "new", "what", "path"),
    [
        ("sent", '"delta":"I edit."', '"delta":"I edot."', "events", "delta"),
        ("sent", '"custom_tool_call"', '"function_call"', "events", "item.type"),
        ("asked", "Edits files.", "Eats files.", "request to the model server", "description"),
        ("asked", "/chat/completions", "/responses", "path of the request", ""),
        ("end", '"state":"completed"', '"state":"failed"', "state at the end", "state"),
        ("end", '"total_tokens":18', '"total_tokens":19', "response", "usage.total_tokens"),
    ],
)
def test_the_first_difference_is_told_with_its_place(
    lines: list[JSON], kind: str, old: str, new: str, what: str, path: str
) -> None:
    if old.startswith('"delta":"I'):
        old, new = '"delta":"I edit.', '"delta":"I edot.'
        texts = [dumps(line).decode() for line in lines if line["kind"] == kind]
        if not any(old in text for text in texts):
            old, new = '"text":"I edit."', '"text":"I edot."'
            path = "text"
    number, altered = changed(lines, kind, old, new)
    difference = replay(altered)
    assert difference is not None
    assert difference.line == number
    assert what in difference.what
    assert path in difference.path
    assert difference.recorded != difference.now


def test_a_changed_answer_of_the_model_server_changes_what_is_sent(lines: list[JSON]) -> None:
    number, altered = changed(lines, "chunk", "edit.", "eat.")
    difference = replay(altered)
    assert difference is not None
    assert difference.line > number
    assert altered[difference.line - 1]["kind"] == "sent"


def test_events_that_would_not_be_sent_any_more(lines: list[JSON]) -> None:
    at = max(i for i, line in enumerate(lines) if line["kind"] == "sent")
    longer = {**lines[at], "events": [*lines[at]["events"], {"type": "one.more"}]}
    difference = replay([*lines[:at], longer, *lines[at + 1 :]])
    assert difference is not None
    assert difference.now == "(absent)"
    missing = replay([*lines[:at], *lines[at + 1 :]])
    assert missing is not None
    assert "more events are left" in missing.what


def test_a_bug_of_the_state_machine_is_shown_where_it_happens(
    lines: list[JSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Turn, event: JSON) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Turn, "receive", broken)
    difference = replay(lines)
    assert difference is not None
    assert difference.what == "the gateway fails"
    assert "ZeroDivisionError: a bug" in difference.now


def test_a_recording_that_was_cut_is_run_as_far_as_it_goes(lines: list[JSON]) -> None:
    for length in range(2, len(lines)):
        assert replay([*lines[:length], {"kind": "cut"}]) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "first line"),
        (b"no json\n", "line 1 is no JSON"),
        (b"[]\n", "line 1 is no line of a recording"),
        (b'{"kind":"turn","request":{},"history":{},"options":{}}\n', "first line"),
        (b'{"kind":"recording","version":9}\n', "version 9"),
        (b'{"kind":"recording","version":1}\n', "holds no turn"),
        (b'{"kind":"recording","version":1}\n{"kind":"turn"}\n', "line 2 has no 'request'"),
    ],
)
def test_what_is_no_recording_is_said(data: bytes, why: str) -> None:
    with pytest.raises(NotARecording, match=why):
        read_lines(data)


def test_an_unknown_line_and_an_unknown_setting_are_said(lines: list[JSON]) -> None:
    with pytest.raises(NotARecording, match="unknown kind 'dream'"):
        replay([*lines, {"kind": "dream"}])
    at = next(i for i, line in enumerate(lines) if line["kind"] == "target")
    profile = {**lines[at]["profile"], "dialect": "telepathy"}
    with pytest.raises(NotARecording, match="made by another gateway"):
        replay([*lines[:at], {**lines[at], "profile": profile}])


@pytest.mark.parametrize(
    ("recorded", "now", "found"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": [1, 2]}, {"a": [1, 3]}, ("a[1]", "2", "3")),
        ({"a": [1]}, {"a": [1, 3]}, ("a[1]", "(absent)", "3")),
        ({"a": 1, "b": 2}, {"a": 1}, ("b", "2", "(absent)")),
        ({"a": 1}, {"a": 1, "b": 2}, ("b", "(absent)", "2")),
        ({"a": 1}, {"a": True}, ("a", "1", "true")),
        (1, "1", ("", "1", '"1"')),
        ("a ****** b", "a secret b", None),
        ("****** and *******", "secret and secrets", None),
        ("a ****** b", "a secret c", ("", '"a ****** b"', '"a secret c"')),
        ("*** Begin", "xxx Begin", ("", '"*** Begin"', '"xxx Begin"')),
        ("a ******", "a secrets", ("", '"a ******"', '"a secrets"')),
    ],
)
def test_the_first_difference_of_two_values(recorded: Any, now: Any, found: Any) -> None:
    assert first_difference(recorded, now) == found


async def test_the_command_says_it_and_its_exit_code_as_well(tmp_path: Path) -> None:
    (good,) = await record("patch", tmp_path)
    bad = tmp_path / "bad"
    bad.write_bytes(good.read_bytes().replace(b'"total_tokens":18', b'"total_tokens":19'))
    run = CliRunner().invoke(main, ["replay", str(good)])
    assert (run.exit_code, "no difference" in run.output) == (0, True)
    run = CliRunner().invoke(main, ["replay", str(good), str(bad)])
    assert run.exit_code == 1
    assert "recorded: 19\n  now:      18" in run.output
    run = CliRunner().invoke(main, ["replay", str(bad), str(tmp_path / "none"), str(tmp_path)])
    assert run.exit_code == 2
    run = CliRunner().invoke(main, ["replay", str(Path(__file__))])
    assert (run.exit_code, "no recording that can be run" in run.output) == (2, True)
