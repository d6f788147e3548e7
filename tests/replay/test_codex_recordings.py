"""Every recorded session of the real Codex CLI, replayed over every transport and both dialects.

Accepted by the strict upstream, lifted to what the recorded model had said, and judged clean by the
stream checker.
"""

import pytest

from tests.replay.clients import Connected
from tests.replay.recordings import names, read
from tests.replay.replayer import Replayer
from tests.scripted import ScriptedUpstream
from tests.serving import serving

# How the upstream's bytes are cut, in bytes a write; 0 is an event a write.
SPLIT = {"ws": 0, "sse": 7, "json": 0}


async def replay(name: str, transport: str, api: str) -> None:
    replayer = Replayer()
    async with (
        ScriptedUpstream(replayer.answer, split=SPLIT[transport]) as upstream,
        serving(upstream.url, api=api) as url,
        Connected(transport, url) as client,
    ):
        for exchange in read(name):
            await replayer.play(exchange, client, upstream)
        assert upstream.requests, "nothing reached the model"


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("transport", ["ws", "sse", "json"])
@pytest.mark.parametrize("name", names())
async def test_a_recorded_session_replays(name: str, transport: str, api: str) -> None:
    await replay(name, transport, api)


def test_the_recordings_are_all_there() -> None:
    assert len(names()) == 36
