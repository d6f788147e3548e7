"""The conversation of 200 turns over three workers on one database: the same upstream bytes as full resends."""

from pathlib import Path

import aiohttp
import pytest

from tests.peers.gateway_process import GatewayProcess
from tests.peers.postgres import PostgresServer
from tests.scripted import ScriptedUpstream
from tests.server.conversation import Agent, Model

TURNS = 200


async def played(folder: Path, how: str, *arguments: str) -> list[bytes]:
    """The bodies that the model server got; every request of HTTP comes by a connection of its own."""
    async with ScriptedUpstream(Model()) as upstream:
        common = ("--upstream", upstream.url, "--upstream-api", "chat")
        connector = aiohttp.TCPConnector(force_close=True)
        async with (
            GatewayProcess(folder, *common, *arguments) as gateway,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            await Agent(session, f"{gateway.url}/responses", how).play(TURNS, upstream)
        upstream.check()
        return [request.raw for request in upstream.requests]


async def same_as_resent(folder: Path, how: str, store: str) -> None:
    for name in ("three", "one"):
        (folder / name).mkdir()
    shared = await played(folder / "three", how, "--workers", "3", "--store", store)
    alone = await played(folder / "one", "resend", "--store", "memory")
    assert len(shared) == len(alone)
    for number, (ours, theirs) in enumerate(zip(shared, alone, strict=True)):
        assert ours == theirs, number


@pytest.mark.parametrize("how", ["chain", "ws"])
async def test_three_workers_continue_what_another_has_stored(how: str, tmp_path: Path) -> None:
    await same_as_resent(tmp_path, how, f"sqlite:{tmp_path}/responses.db")


async def test_three_workers_continue_over_postgresql(tmp_path: Path) -> None:
    with PostgresServer() as server:
        await same_as_resent(tmp_path, "chain", server.url)
