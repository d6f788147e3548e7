"""200 turns of an agent: the same upstream bytes over every transport, each an extension of the one before."""

from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.config import Config, ServerConfig, StoreConfig, UpstreamConfig
from gateway.server.keys import RELAY, STORE
from gateway.server.parents import Parents
from gateway.store.protocol import Link
from tests.scripted import ScriptedUpstream
from tests.server.conversation import Agent, Model, prefixes

TURNS = 200


async def played(how: str, store: str, turns: int = TURNS, *, is_cold: bool = False) -> list[bytes]:
    """The bodies that the model server got. Cold: nothing is kept ready, the store is read at each turn."""
    async with ScriptedUpstream(Model()) as upstream:
        config = Config(
            server=ServerConfig(port=0, shutdown_seconds=0.5),
            upstream=UpstreamConfig(url=upstream.url, api="chat", profile="default"),
            store=StoreConfig(url=store),
        )
        async with Gateway(config) as gateway, aiohttp.ClientSession() as session:
            reads = Reads(gateway, is_cold)
            await Agent(session, f"{gateway.url}/v1/responses", how).play(turns, upstream)
        if how == "chain":
            assert (reads.count > turns * 0.9) is is_cold
            # After an interrupted turn what it continued is read again.
            assert reads.count <= turns // len(Model.KINDS) or is_cold
        upstream.check()
        return [request.raw for request in upstream.requests]


class Reads:
    """Counts how often the store is asked for a whole chain."""

    def __init__(self, gateway: Gateway, is_cold: bool) -> None:
        self.count = 0
        self._chain = gateway.app[STORE].chain
        gateway.app[STORE].chain = self._read
        if is_cold:
            gateway.app[RELAY].parents = Parents(gateway.app[STORE], max_parents=0)

    async def _read(self, id: str, owner: str) -> list[Link]:
        self.count += 1
        return await self._chain(id, owner)


@pytest.fixture(scope="module")
def bodies() -> dict[str, list[bytes]]:
    """Kept between the tests of this file: what full resends have sent."""
    return {}


async def resent(bodies: dict[str, list[bytes]]) -> list[bytes]:
    if not bodies:
        bodies["resend"] = await played("resend", "memory")
    return bodies["resend"]


@pytest.mark.parametrize(
    ("how", "store", "is_cold"),
    [
        ("ws", "memory", False),
        ("chain", "memory", False),
        ("chain", "memory", True),
        ("chain", "sqlite:{folder}/s.db", False),
        ("chain", "sqlite:{folder}/s.db", True),
    ],
)
async def test_a_conversation_is_the_same_over(
    how: str, store: str, is_cold: bool, bodies: dict[str, list[bytes]], tmp_path: Any
) -> None:
    expected = await resent(bodies)
    got = await played(how, store.format(folder=tmp_path), is_cold=is_cold)
    assert len(got) == len(expected)
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        assert ours == theirs, number


async def test_a_grown_history_extends_the_bytes(bodies: dict[str, list[bytes]]) -> None:
    pairs = list(prefixes(await resent(bodies)))
    for before, after in pairs:
        assert after.startswith(before)
    # The rest has found a tool that was new.
    assert len(pairs) > TURNS * 0.8
