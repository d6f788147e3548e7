"""The whole row of a peer test: a client, the gateway's process, the scripted strict upstream."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from tests.peers.gateway_process import GatewayProcess
from tests.scripted import Script, ScriptedUpstream


@contextlib.asynccontextmanager
async def gateway_before(
    folder: Path, script: Script, *, api: str = "chat", split: int = 0, settings: str = ""
) -> AsyncIterator[tuple[GatewayProcess, ScriptedUpstream]]:
    """A gateway process before a scripted upstream of the given dialect; refusals fail the test.

    Args:
        folder: for its files.
        script: what the model answers.
        api: the dialect spoken to it.
        split: how its bytes are cut.
        settings: the text of a settings file.
    """
    folder = folder / "gateway"
    folder.mkdir()
    async with ScriptedUpstream(script, split=split) as upstream:
        file = folder / "gateway.toml"
        file.write_text(settings)
        arguments = ("--upstream", upstream.url, "--upstream-api", api, "--config", str(file))
        async with GatewayProcess(folder, *arguments) as gateway:
            yield gateway, upstream
        upstream.check()
