"""The demonstration before a scripted model: both turns, the verdict, and files only where told."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.agent.samples import new_file
from gateway.cli import main
from tests.scripted import Call, Refuse, Script, ScriptedUpstream


async def demo(script: Script, *arguments: str) -> Result:
    """The command in a thread, since it has a loop of its own."""
    async with ScriptedUpstream(script) as upstream:
        command = ["demo", "--upstream", upstream.url, *arguments]
        done = await asyncio.to_thread(CliRunner().invoke, main, command, catch_exceptions=False)
        upstream.check()
    return done


@pytest.mark.parametrize(
    ("patch", "verdict"), [(new_file("hello.txt", "hello"), "valid"), ("no patch", "invalid")]
)
async def test_a_patch_is_shown_judged_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patch: str, verdict: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = await demo([Call("apply_patch", {"input": patch}), "It is there."])
    assert done.exit_code == 0
    for words in ("response.custom_tool_call_input.delta", f"verdict   {verdict}", "It is there."):
        assert words in done.stdout
    assert os.listdir(tmp_path) == []


async def test_files_are_written_where_told(tmp_path: Path) -> None:
    patch = new_file("hello.txt", "hello")
    out = tmp_path / "shown"
    await demo([Call("apply_patch", {"input": patch}), "ok"], "--out", str(out))
    assert out.joinpath("patch.txt").read_text() == patch
    events = [json.loads(line) for line in out.joinpath("events.jsonl").read_text().splitlines()]
    assert [e["type"] for e in events].count("response.completed") == 2


async def test_a_model_that_does_not_call_is_said() -> None:
    done = await demo(["I would rather talk."])
    assert done.exit_code == 1
    assert "did not call apply_patch" in done.stdout
    assert "I would rather talk." in done.stdout


async def test_an_upstream_that_fails_is_one_sentence() -> None:
    done = await demo([Refuse(500, {"error": {"message": "CUDA error"}})])
    assert done.exit_code == 2
    assert "CUDA error" in done.stderr
    assert "Traceback" not in done.output
