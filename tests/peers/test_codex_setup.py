"""Both Codex versions start with the configuration that `codex --write` makes, and declare what they should."""

import os
import sys
from pathlib import Path

import pytest

from gateway.codex.home import Home
from tests.peers.codex import OLD_VERSION, REPO, VERSION, codex_binary
from tests.peers.front import gateway_before
from tests.peers.processes import Finished, run

# How a user chooses the gateway: by the profile, by the provider alone, or by default.
WAYS = {
    "profile": ["-p", "gateway"],
    "provider": ["-c", 'model_provider="gateway"', "-m", "scripted"],
    "default": [],
}
# Without the profile only the catalogue's URL is left, which 0.147 does not know.
CASES = [
    (VERSION, "profile"),
    (VERSION, "provider"),
    (VERSION, "default"),
    (OLD_VERSION, "profile"),
    (OLD_VERSION, "default"),
]


async def write(home: Path, *arguments: str) -> Finished:
    """The command as a process, in a home of its own."""
    env = {**os.environ, "CODEX_HOME": str(home), "PYTHONPATH": str(REPO)}
    command = [sys.executable, "-m", "gateway", "codex", *arguments]
    return await run(command, env=env, cwd=home.parent, seconds=30)


@pytest.mark.parametrize(("version", "way"), CASES)
async def test_codex_starts_and_declares_apply_patch_and_tool_search(
    tmp_path: Path, version: str, way: str
) -> None:
    home, work = tmp_path / "codex", tmp_path / "work"
    work.mkdir()
    before = '# my own\nweb_search = "disabled"\ncheck_for_update_on_startup = false\n'
    home.mkdir()
    home.joinpath("config.toml").write_text(before)
    async with gateway_before(tmp_path, lambda request: "hello") as (gateway, upstream):
        default = ["--default"] if way == "default" else []
        done = await write(home, "--write", "--url", gateway.url, *default)
        assert done.code == 0, done.stderr
        command = [codex_binary(version), "exec", "--skip-git-repo-check", "-C", str(work)]
        env = {**os.environ, "HOME": str(home), "CODEX_HOME": str(home)}
        ran = await run([*command, *WAYS[way], "hi"], env=env, cwd=work, seconds=120)
        assert ran.code == 0, ran.stderr
        assert "Model metadata" not in ran.stderr
        assert {"apply_patch", "tool_search"} <= upstream.requests[-1].functions.keys()
        assert "ws " in gateway.log
        await write(home, "--undo")
    assert home.joinpath("config.toml").read_text() == before
    assert Home(home).undo() == []
