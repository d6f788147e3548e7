"""The real Codex CLI in front of a strict function-only model server, over both transports.

What counts is what Codex does: files on its disk, MCP calls that were answered, threads that go on.
That the upstream saw nothing but ordinary functions is checked by its strictness.
"""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.codex import Codex
from tests.peers.front import gateway_before
from tests.scripted import Call, Reasoning, Received, Script, ScriptedUpstream, hang

ROUTES = [(w, api) for w in (True, False) for api in ("chat", "responses")]
every_route = pytest.mark.parametrize(
    ("websocket", "api"), ROUTES, ids=[f"{'ws' if w else 'sse'}-{api}" for w, api in ROUTES]
)
both_transports = pytest.mark.parametrize("websocket", [True, False], ids=["ws", "sse"])

CREATE = """*** Begin Patch
*** Add File: notes.txt
+first line
+second "line" with \\ and é
*** Add File: sub/other.txt
+other
*** End Patch
"""
UPDATE = """*** Begin Patch
*** Update File: notes.txt
@@
-first line
+first line, changed
 second "line" with \\ and é
*** End Patch
"""
MOVE = """*** Begin Patch
*** Update File: sub/other.txt
*** Move to: moved.txt
@@
-other
+other, moved
*** End Patch
"""
DELETE = """*** Begin Patch
*** Delete File: notes.txt
*** End Patch
"""


@contextlib.asynccontextmanager
async def codex_before(
    folder: Path,
    script: Script,
    *,
    websocket: bool = True,
    api: str = "chat",
    model: str = "freeform",
    mcp: bool = False,
    split: int = 0,
    settings: str = "",
) -> AsyncIterator[tuple[Codex, ScriptedUpstream]]:
    front = gateway_before(folder, script, api=api, split=split, settings=settings)
    async with front as (gateway, upstream):
        client = folder / "codex"
        yield Codex(client, gateway.url, websocket=websocket, model=model, mcp=mcp), upstream


@every_route
async def test_apply_patch_changes_files_whatever_key_the_model_uses(
    tmp_path: Path, websocket: bool, api: str
) -> None:
    script = [
        [Reasoning("I will write files."), Call("apply_patch", {"input": CREATE})],
        Call("apply_patch", {"patch": UPDATE}),
        Call("apply_patch", {"diff": MOVE}),
        "Three patches are in.",
    ]
    async with codex_before(tmp_path, script, websocket=websocket, api=api) as (codex, upstream):
        run = (await codex.exec("write some files")).check()
        assert run.message == "Three patches are in."
        assert len(upstream.requests) == 4
        outputs = upstream.requests[-1].outputs
    assert [("Success" in output) for output in outputs] == [True, True, True]
    notes = codex.work.joinpath("notes.txt").read_text()
    assert notes == 'first line, changed\nsecond "line" with \\ and é\n'
    assert codex.work.joinpath("moved.txt").read_text() == "other, moved\n"
    assert not codex.work.joinpath("sub/other.txt").exists()


@both_transports
async def test_apply_patch_deletes_a_file_and_takes_a_bare_string(
    tmp_path: Path, websocket: bool
) -> None:
    script = [Call("apply_patch", {"input": DELETE}), Call("apply_patch", json.dumps(CREATE)), "ok"]
    async with codex_before(tmp_path, script, websocket=websocket, split=1) as (codex, _):
        codex.work.joinpath("notes.txt").write_text("old")
        run = (await codex.exec("delete, then create")).check()
    changes = [item["changes"] for item in run.items if item["type"] == "file_change"]
    assert [change["kind"] for change in changes[0]] == ["delete"]
    assert codex.work.joinpath("notes.txt").read_text().startswith("first line\n")


@both_transports
async def test_a_patch_that_does_not_apply_comes_back_to_the_model(
    tmp_path: Path, websocket: bool
) -> None:
    script = [Call("apply_patch", {"input": "not a patch"}), "I see."]
    async with codex_before(tmp_path, script, websocket=websocket) as (codex, upstream):
        (await codex.exec("try a bad patch")).check()
        assert "invalid patch" in upstream.requests[-1].outputs[0]


@both_transports
async def test_a_malformed_patch_is_an_ordinary_function_call_in_strict_mode(
    tmp_path: Path, websocket: bool
) -> None:
    """Codex runs no function of that name: it answers `aborted`, and the turn goes on."""
    script = [Call("apply_patch", {"input": "not a patch"}), "I see."]
    strict = '[tools]\ninvalid = "function_call"\n'
    front = codex_before(tmp_path, script, websocket=websocket, settings=strict)
    async with front as (codex, upstream):
        run = await codex.exec("try a bad patch")
        assert len(upstream.requests) == 2
        assert "aborted" in upstream.requests[-1].outputs[0]
    assert run.message == "I see."


@both_transports
@pytest.mark.parametrize(
    "wrap",
    [
        "```diff\n{}```",
        "apply_patch <<'EOF'\n{}EOF\n",
        '{{"patch": {json}}}',
    ],
    ids=["fence", "heredoc", "json"],
)
async def test_a_wrapped_patch_is_unwrapped_and_applied(
    tmp_path: Path, websocket: bool, wrap: str
) -> None:
    """Codex itself refuses all three (recording 27)."""
    wrapped = wrap.format(CREATE, json=json.dumps(CREATE))
    script = [Call("apply_patch", {"input": wrapped}), "Done."]
    for settings in ("", '[tools]\ninvalid = "function_call"\n'):
        folder = tmp_path / f"strict{bool(settings)}"
        folder.mkdir()
        front = codex_before(folder, script, websocket=websocket, settings=settings)
        async with front as (codex, _upstream):
            (await codex.exec("write the notes")).check()
        assert codex.work.joinpath("sub/other.txt").read_text() == "other\n"


def search_then_call(request: Received) -> Any:
    """tool_search, then the function that it has loaded, then a word about it."""
    match len(request.outputs):
        case 0:
            assert "tool_search" in request.functions
            assert not any(name.endswith("get_forecast") for name in request.functions)
            return Call("tool_search", {"query": "weather forecast"})
        case 1:
            return Call(request.named("__get_forecast"), {"city": "Oslo"})
        case _:
            return f"It says: {request.outputs[-1]}"


@every_route
async def test_a_tool_found_by_tool_search_is_called(
    tmp_path: Path, websocket: bool, api: str
) -> None:
    options: dict[str, Any] = {"websocket": websocket, "api": api, "model": "search", "mcp": True}
    async with codex_before(tmp_path, search_then_call, **options) as (codex, upstream):
        run = (await codex.exec("what is the weather?")).check()
        assert len(upstream.requests) == 3
    assert "get_forecast: Oslo is sunny, 21 C" in run.message
    calls = [item for item in run.items if item["type"] == "mcp_tool_call"]
    assert [(call["server"], call["tool"]) for call in calls] == [("weather", "get_forecast")]


@every_route
async def test_parallel_calls_of_every_kind_are_answered(
    tmp_path: Path, websocket: bool, api: str
) -> None:
    def script(request: Received) -> Any:
        if request.outputs:
            return " | ".join(request.outputs)
        return [
            "I do three things at once.",
            Call(request.named("__get_forecast"), {"city": "Oslo"}),
            Call("exec_command", {"cmd": "echo from-the-shell"}),
            Call("apply_patch", {"input": CREATE}),
        ]

    options: dict[str, Any] = {"websocket": websocket, "api": api, "mcp": True}
    async with codex_before(tmp_path, script, **options) as (codex, upstream):
        run = (await codex.exec("do three things")).check()
        assert len(upstream.requests) == 2
        names = [name for name, _ in upstream.requests[-1].calls]
    assert [name.rpartition("__")[2] for name in names] == [
        "get_forecast",
        "exec_command",
        "apply_patch",
    ]
    weather, shell, patch = run.message.split(" | ")
    assert "get_forecast: Oslo is sunny" in weather
    assert "from-the-shell" in shell
    assert "Success" in patch
    assert codex.work.joinpath("sub/other.txt").read_text() == "other\n"


@every_route
async def test_lite_models_get_their_tools_by_additional_tools(
    tmp_path: Path, websocket: bool, api: str
) -> None:
    def script(request: Received) -> Any:
        if request.outputs:
            return "patched"
        # The namespace `functions` is the top level: bare names, custom members among them.
        assert {"apply_patch", "exec_command", "tool_search"} <= set(request.functions)
        return Call("apply_patch", {"input": CREATE})

    options: dict[str, Any] = {"websocket": websocket, "api": api, "model": "lite", "mcp": True}
    async with codex_before(tmp_path, script, **options) as (codex, _):
        assert (await codex.exec("write a file")).check().message == "patched"
    assert codex.work.joinpath("sub/other.txt").read_text() == "other\n"


@every_route
async def test_a_resumed_thread_carries_its_calls(
    tmp_path: Path, websocket: bool, api: str
) -> None:
    script = [Call("apply_patch", {"input": CREATE}), "created", "I remember."]
    async with codex_before(tmp_path, script, websocket=websocket, api=api) as (codex, upstream):
        first = (await codex.exec("remember the word apple")).check()
        second = (await codex.exec("which word?", resume=first.thread_id)).check()
        last = upstream.requests[-1]
        assert second.message == "I remember."
        assert any("remember the word apple" in text for text in last.texts)
        assert [name for name, _ in last.calls] == ["apply_patch"]
        assert json.loads(last.calls[0][1]) == {"input": CREATE}


@both_transports
async def test_several_turns_in_one_process_extend_one_history(
    tmp_path: Path, websocket: bool
) -> None:
    script = ["one", Call("exec_command", {"cmd": "echo two"}), "two", "three"]
    async with codex_before(tmp_path, script, websocket=websocket) as (codex, upstream):
        async with codex.app_server() as server:
            await server.start_thread()
            turns = [await server.turn(f"say {word}") for word in ("one", "two", "three")]
        histories = [body["messages"] for body in upstream.bodies]
    assert [turn.status for turn in turns] == ["completed"] * 3
    assert [turn.message for turn in turns] == ["one", "two", "three"]
    # Prefix caches of model servers hold only while nothing before the new part changes.
    for before, after in itertools.pairwise(histories):
        assert after[: len(before)] == before


@every_route
async def test_an_interrupt_stops_the_model_and_the_thread_goes_on(
    tmp_path: Path, websocket: bool, api: str
) -> None:
    script = [hang(["This will never end, I am afraid."], after=4), "It ended."]
    async with codex_before(tmp_path, script, websocket=websocket, api=api) as (codex, upstream):
        async with codex.app_server() as server:
            await server.start_thread()
            turn_id = await server.start_turn("talk for ever")
            await upstream.until(lambda u: u.hanging)
            assert (await server.interrupt(turn_id)).status == "interrupted"
            await upstream.until(lambda u: u.disconnects)
            assert (await server.turn("did it end?")).message == "It ended."
        assert len(upstream.requests) == 2


@both_transports
async def test_a_thread_survives_an_interrupted_call(tmp_path: Path, websocket: bool) -> None:
    """The interrupted call has no output; strict servers would refuse the history for ever."""
    # Longer than the test needs, and it ends by itself: Codex gives it a session of its own.
    call = Call("exec_command", {"cmd": "sleep 20", "yield_time_ms": 30000})
    script = [call, "after the interrupt"]
    async with codex_before(tmp_path, script, websocket=websocket) as (codex, upstream):
        async with codex.app_server() as server:
            await server.start_thread()
            turn_id = await server.start_turn("run something long")
            await server.until_item_started("commandExecution")
            assert (await server.interrupt(turn_id)).status == "interrupted"
            assert (await server.turn("and now?")).message == "after the interrupt"
        assert len(upstream.requests) == 2
