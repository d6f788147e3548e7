"""The command line as a process: what it prints, how it ends, and what it says when it cannot start."""

import asyncio
import os
import re
import signal
import socket
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.server.keyfile import add_key
from tests.scripted import ScriptedUpstream
from tests.server.clients import run_turn

REPO = Path(__file__).resolve().parents[2]
Process = asyncio.subprocess.Process


def environment() -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RESPONSES_GATEWAY_")}
    return {**clean, "PYTHONPATH": str(REPO)}


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[tuple[Process, str, str]]:
    """(process, URL without /v1, all that it printed)."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--port", "0", *arguments),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    printed = ""
    try:
        while "codex -p" not in printed:
            line = await process.stdout.readline()
            assert line, f"it ended: {printed}"
            printed += line.decode()
        url = re.findall(r"http://127\.0\.0\.1:\d+", printed.splitlines()[0])[0]
        yield process, url, printed
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def refused(*arguments: str) -> str:
    """What a start that fails says, in one line and with exit code 2."""
    result = CliRunner().invoke(main, ["serve", *arguments], env=unset())
    assert result.exit_code == 2, result.output
    message: str = result.stderr.strip()
    assert "Traceback" not in message
    assert "\n" not in message
    return message


def unset() -> dict[str, str | None]:
    return {name: None for name in os.environ if name.startswith("RESPONSES_GATEWAY_")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_prints_what_codex_needs_and_ends_cleanly(number: signal.Signals) -> None:
    async with (
        ScriptedUpstream(["hello"]) as upstream,
        started("--upstream", upstream.url) as (process, url, printed),
    ):
        assert (await run_turn("ws", url, {"model": "scripted", "input": "hi"})).text == "hello"
        process.send_signal(number)
        assert await process.wait() == 0
    assert f"listens on {url}/v1" in printed.splitlines()[0]
    assert upstream.url in printed
    assert "/chat/completions, profile default" in printed
    assert f'base_url = "{url}/v1"' in printed
    assert 'model = "scripted"' in printed
    assert f"responses-gateway codex --write --url {url}" in printed
    lines = printed.partition("config.toml:\n")[2].partition("Any Codex")[0]
    provider = tomllib.loads(lines)["model_providers"]["gateway"]
    assert provider["supports_websockets"] is True
    assert provider["model_catalog_url"] == f"{url}/v1/models"


async def test_with_keys_codex_is_told_where_to_take_one_from(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    add_key(keys, "alice")
    async with (
        ScriptedUpstream(["hello"]) as upstream,
        started("--upstream", upstream.url, "--keys", str(keys)) as (_, url, printed),
    ):
        assert 'env_key = "GATEWAY_KEY"' in printed
        assert f"codex --write --url {url} --key-env GATEWAY_KEY\n" in printed


async def test_workers_share_one_port() -> None:
    async with (
        ScriptedUpstream(lambda request: "hello") as upstream,
        started("--upstream", upstream.url, "--workers", "2") as (process, url, _),
    ):
        for _ in range(4):
            reply = await run_turn("sse", url, {"model": "scripted", "input": "hi"})
            assert reply.text == "hello"
        process.terminate()
        assert await process.wait() == 0


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused("--port", str(port), "--upstream", "http://127.0.0.1:9/v1")
    assert f"Port {port} on 127.0.0.1 is in use" in message
    assert "--port" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--upstream", "localhost:8000"], "write it like http://127.0.0.1:8000/v1"),
        (["--port", "70000"], "--port"),
        (["--workers", "0"], "--workers"),
        (["--upstream", "http://h/v1", "--profile", "vlm"], "Did you mean 'vllm'?"),
        (["--upstream", "http://h/v1", "--store", "disk"], "disk"),
        (["--upstream", "http://h/v1", "--host", "no.such.host.invalid"], "another --host"),
        (["--config", "/no/such/file.toml"], "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(arguments: list[str], words: str) -> None:
    assert words in refused("--port", "0", *arguments)


def test_mistakes_in_a_file_and_in_its_profile(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("[server]\nprot = 1\n")
    message = refused("--config", str(file))
    assert message.endswith("gateway.toml:2: unknown key 'prot' in [server]; did you mean 'port'?")
    file.write_text('[upstream]\nurl = "http://h/v1"\n[profile]\nname_max_lenght = 1\n')
    assert "'name_max_length'" in refused("--config", str(file))
    file.write_text('[upstream]\nurl = "http://h/v1"\napi_key_env = "NO_SUCH_KEY"\n')
    assert "NO_SUCH_KEY" in refused("--config", str(file))


def test_help_and_version() -> None:
    help_text = CliRunner().invoke(main, ["serve", "--help"]).output
    for flag in ("host", "port", "upstream", "upstream-api", "profile", "store", "workers"):
        assert f"--{flag}" in help_text
    assert CliRunner().invoke(main, ["--version"]).exit_code == 0
