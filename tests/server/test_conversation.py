"""200 turns of an agent: the same upstream bytes over every transport, each an extension of the one before."""

from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.config import Config, ServerConfig, StoreConfig, UpstreamConfig
from tests.scripted import ScriptedUpstream
from tests.server.conversation import Agent, Model, prefixes

TURNS = 200


async def played(how: str, store: str, turns: int = TURNS) -> list[bytes]:
    """The bodies that the model server got."""
    async with ScriptedUpstream(Model()) as upstream:
        config = Config(
            server=ServerConfig(port=0, shutdown_seconds=0.5),
            upstream=UpstreamConfig(url=upstream.url, api="chat", profile="default"),
            store=StoreConfig(url=store),
        )
        async with Gateway(config) as gateway, aiohttp.ClientSession() as session:
            await Agent(session, f"{gateway.url}/v1/responses", how).play(turns, upstream)
        upstream.check()
        return [request.raw for request in upstream.requests]


@pytest.fixture(scope="module")
def bodies() -> dict[str, list[bytes]]:
    """Kept between the tests of this file: what full resends have sent."""
    return {}


async def resent(bodies: dict[str, list[bytes]]) -> list[bytes]:
    if not bodies:
        bodies["resend"] = await played("resend", "memory")
    return bodies["resend"]


@pytest.mark.parametrize(
    ("how", "store"), [("ws", "memory"), ("chain", "memory"), ("chain", "sqlite:{folder}/s.db")]
)
async def test_a_conversation_is_the_same_over(
    how: str, store: str, bodies: dict[str, list[bytes]], tmp_path: Any
) -> None:
    expected = await resent(bodies)
    got = await played(how, store.format(folder=tmp_path))
    assert len(got) == len(expected)
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        assert ours == theirs, number


async def test_a_grown_history_extends_the_bytes(bodies: dict[str, list[bytes]]) -> None:
    pairs = list(prefixes(await resent(bodies)))
    for before, after in pairs:
        assert after.startswith(before)
    # The rest has found a tool that was new.
    assert len(pairs) > TURNS * 0.8
