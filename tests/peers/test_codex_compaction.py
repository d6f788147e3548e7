"""Real Codex, old and new, compacts its threads against the gateway and goes on; a cut socket costs nothing.

A provider named "OpenAI" makes Codex ask for remote compaction (a `compaction_trigger`, answered by one sealed item);
under any other name it asks the model for a summary itself.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.codex import OLD_VERSION, VERSION, AppServer, Codex
from tests.peers.front import gateway_before
from tests.scripted import Call, Received, ScriptedUpstream, break_off

SUMMARY = "The user likes the colour teal; nothing else happened."
versions = pytest.mark.parametrize("version", [OLD_VERSION, VERSION])
transports = pytest.mark.parametrize("websocket", [True, False], ids=["ws", "sse"])


def answer(request: Received) -> Any:
    """A summary when one is asked for, a word otherwise."""
    asked = request.texts[-1].lower()
    return SUMMARY if "summar" in asked or "checkpoint" in asked else "Noted."


@contextlib.asynccontextmanager
async def thread_before(
    folder: Path, script: Any, **options: Any
) -> AsyncIterator[tuple[AppServer, ScriptedUpstream]]:
    async with gateway_before(folder, script) as (gateway, upstream):
        codex = Codex(folder / "codex", gateway.url, **options)
        async with codex.app_server() as server:
            await server.start_thread()
            yield server, upstream


@versions
@transports
@pytest.mark.parametrize("provider", ["OpenAI", "Gateway"], ids=["remote", "local"])
async def test_a_thread_is_compacted_and_goes_on(
    tmp_path: Path, provider: str, websocket: bool, version: str
) -> None:
    options = {"websocket": websocket, "provider": provider, "version": version}
    async with thread_before(tmp_path, answer, **options) as (server, upstream):
        assert (await server.turn("I like teal.")).message == "Noted."
        compacted = await server.compact()
        assert (compacted.status, compacted.error) == ("completed", "")
        before = len(upstream.requests)
        assert (await server.turn("What do I like?")).message == "Noted."
        after = upstream.requests[before:]
        assert len(after) == 1
        history = json.dumps(after[0].history)
        assert SUMMARY in history
        assert "encrypted_content" not in history


@versions
@transports
async def test_remote_compaction_keeps_what_a_call_has_said(
    tmp_path: Path, websocket: bool, version: str
) -> None:
    """A call and its output go into the summary together, and never up as half a pair."""

    def script(request: Received) -> Any:
        if "teal" in request.texts[-1] and not request.outputs:
            return Call("exec_command", {"cmd": "echo from-the-shell"})
        return answer(request)

    options = {"websocket": websocket, "provider": "OpenAI", "version": version}
    async with thread_before(tmp_path, script, **options) as (server, upstream):
        assert (await server.turn("I like teal.")).status == "completed"
        assert (await server.compact()).status == "completed"
        asked = upstream.requests[-1]
        assert "from-the-shell" in asked.outputs[0]
        assert (await server.turn("Go on.")).message == "Noted."
        assert upstream.requests[-1].calls == []


async def test_a_socket_that_is_cut_in_mid_turn_costs_nothing(tmp_path: Path) -> None:
    """The model breaks off; Codex sends everything again on a new socket, and the turn ends well."""
    replies = iter([break_off(["Half an ans", "wer"], after=1), "The whole answer.", "More."])
    options: dict[str, Any] = {"arguments": ["-c", "model_providers.gateway.stream_max_retries=2"]}
    async with thread_before(tmp_path, lambda _: next(replies), **options) as (server, upstream):
        turn = await server.turn("Tell me.")
        assert (turn.status, turn.message) == ("completed", "The whole answer.")
        assert (await server.turn("And?")).message == "More."
        first, second, third = (json.dumps(request.history) for request in upstream.requests)
        assert first == second
        assert "Half an ans" not in third


@pytest.mark.parametrize("version", [VERSION])
async def test_the_built_in_provider_compacts_through_openai_base_url(
    tmp_path: Path, version: str
) -> None:
    """Codex's own provider with another address: WebSocket and remote compaction are on by themselves."""
    async with gateway_before(tmp_path, answer) as (gateway, upstream):
        codex = Codex(tmp_path / "codex", gateway.url, version=version)
        file = codex.home / "config.toml"
        base = f'openai_base_url = {json.dumps(gateway.url)}\nmodel_provider = "openai"'
        file.write_text(file.read_text().replace('model_provider = "gateway"', base))
        codex.home.joinpath("auth.json").write_text(json.dumps({"OPENAI_API_KEY": "sk-test"}))
        async with codex.app_server() as server:
            await server.start_thread()
            assert (await server.turn("I like teal.")).message == "Noted."
            assert (await server.compact()).status == "completed"
            assert (await server.turn("What do I like?")).message == "Noted."
        assert SUMMARY in json.dumps(upstream.requests[-1].history)
        assert "internal_chat_message_metadata_passthrough" not in json.dumps(
            [request.body for request in upstream.requests]
        )
