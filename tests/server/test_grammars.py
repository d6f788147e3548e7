"""Custom tools with a grammar: verdicts over every transport, and servers that keep or refuse a pattern."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.config import ToolsConfig
from tests.scripted import Call, Received, Refuse, ScriptedUpstream
from tests.server.clients import TRANSPORTS, run_turn
from tests.serving import serving

DEFINITION = (Path(__file__).parents[1] / "grammars" / "apply_patch.lark").read_text()
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch"


def tool(
    definition: str = DEFINITION, name: str = "apply_patch", syntax: str = "lark"
) -> dict[str, Any]:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {"type": "custom", "name": name, "description": "Edits.", "format": form}


def request(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "input": "edit", "tools": list(tools) or [tool()]}


def pattern_of(received: Received) -> str | None:
    function = received.body["tools"][0].get("function") or received.body["tools"][0]
    return function["parameters"]["properties"]["input"].get("pattern")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("text", "kind", "given"),
    [
        (PATCH, "valid", PATCH),
        (f"```\n{PATCH}\n```", "unwrapped", f"{PATCH}\n"),
        ("no patch", "invalid: line 1, column 1", "no patch"),
    ],
)
async def test_the_verdict_is_logged_with_the_call(
    transport: str, text: str, kind: str, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway.turn")
    async with (
        ScriptedUpstream([Call("apply_patch", {"input": text})], split=1) as upstream,
        serving(upstream.url) as url,
    ):
        reply = await run_turn(transport, url.removesuffix("/v1"), request())
        item = reply.response["output"][0]
        assert (item["type"], item["input"]) == ("custom_tool_call", given)
    assert f"apply_patch {item['call_id']} grammar={kind}" in caplog.text


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_broken_grammar_names_tool_and_line(transport: str) -> None:
    async with ScriptedUpstream([]) as upstream, serving(upstream.url) as url:
        broken = request(tool(), tool('start: "a"\nrest: (', "other"))
        reply = await run_turn(transport, url.removesuffix("/v1"), broken)
        assert reply.status == 400
        assert reply.error["param"] == "tools[1].format.definition"
        assert "'other'" in reply.error["message"]
        assert "line 2" in reply.error["message"]
        assert upstream.requests == []


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_server_that_keeps_patterns_is_given_one(api: str) -> None:
    async with (
        ScriptedUpstream([Call("apply_patch", {"input": PATCH})] * 2) as upstream,
        serving(upstream.url, api=api, profile="llamacpp") as url,
        serving(
            upstream.url, api=api, profile="llamacpp", tools=ToolsConfig(constrain="off")
        ) as off,
    ):
        await run_turn("json", url.removesuffix("/v1"), request())
        await run_turn("json", off.removesuffix("/v1"), request())
        kept, free = map(pattern_of, upstream.requests)
        assert kept is not None
        assert kept.startswith(r"^\*\*\* Begin Patch\\n(")
        assert free is None


def refusing(status: int) -> Callable[[Received], Any]:
    def answer(received: Received) -> Any:
        if pattern_of(received) is not None:
            return Refuse(status, {"error": {"message": "cannot compile this schema"}})
        return Call("apply_patch", {"input": PATCH})

    return answer


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_that_refuses_the_pattern_is_asked_once_more_and_remembered(
    transport: str, status: int
) -> None:
    async with (
        ScriptedUpstream(refusing(status)) as upstream,
        serving(upstream.url, profile="llamacpp") as url,
    ):
        for _ in range(2):
            reply = await run_turn(transport, url.removesuffix("/v1"), request())
            assert reply.response["output"][0]["input"] == PATCH
        asked = [pattern_of(received) is not None for received in upstream.requests]
        assert asked == [True, False, False]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "too long", "code": "context_length_exceeded"}),
        (429, {"message": "slow down"}),
        (401, {"message": "who are you"}),
    ],
)
async def test_other_refusals_are_passed_on(status: int, error: dict[str, str]) -> None:
    async with (
        ScriptedUpstream(lambda received: Refuse(status, {"error": error})) as upstream,
        serving(upstream.url, profile="llamacpp") as url,
    ):
        reply = await run_turn("json", url.removesuffix("/v1"), request())
        assert reply.status == status
        assert len(upstream.requests) == 1


async def test_a_refusal_that_was_not_about_the_pattern_is_the_clients_and_not_remembered() -> None:
    async with (
        ScriptedUpstream(lambda received: Refuse(400, {"error": {"message": "bad"}})) as upstream,
        serving(upstream.url, profile="llamacpp") as url,
    ):
        for _ in range(2):
            reply = await run_turn("json", url.removesuffix("/v1"), request())
            assert (reply.status, reply.error["message"]) == (400, "bad")
        asked = [pattern_of(received) is not None for received in upstream.requests]
        assert asked == [True, False, True, False]


BLOW_UPS = [
    ("regex", "(a+)+$"),
    ("regex", "(" * 100 + "a" + ")" * 100),
    ("regex", "|".join(f"word{n}" for n in range(5_000))),
    ("regex", "(?:a{1000}){1000}"),
    ("lark", "start: " + "(" * 3_000 + '"a"' + ")" * 3_000),
    ("lark", "start: " + " | ".join(f'"word{n}"' for n in range(3_000))),
    ("lark", 'start: "a"\n' + "// long\n" * 140_000),
]


@pytest.mark.parametrize(("syntax", "definition"), BLOW_UPS, ids=map(str, range(len(BLOW_UPS))))
async def test_a_grammar_that_blows_up_harms_nobody(syntax: str, definition: str) -> None:
    """The call goes through whatever can be said of its grammar, and others are served meanwhile."""
    hostile = request(tool(definition, "hostile", syntax))

    def answer(received: Received) -> Any:
        return Call("hostile", {"input": "a" * 5_000}) if "hostile" in received.functions else "hi"

    async with (
        ScriptedUpstream(answer) as upstream,
        serving(upstream.url, profile="llamacpp") as url,
    ):
        base = url.removesuffix("/v1")
        began = time.monotonic()
        slow = asyncio.create_task(run_turn("ws", base, hostile))
        quick = await run_turn("sse", base, {"model": "m", "input": "hi"})
        assert quick.text == "hi"
        reply = await slow
        took = time.monotonic() - began
        if reply.status == 200:
            assert reply.response["output"][0]["input"] == "a" * 5_000
        else:
            assert reply.error["param"] == "tools[0].format.definition"
        assert took < 10


async def test_a_patch_of_ten_megabytes_streams_through() -> None:
    lines = "".join(f"+line {n} of a very long file indeed\n" for n in range(250_000))
    patch = f"*** Begin Patch\n*** Add File: a.txt\n{lines}*** End Patch"
    assert len(patch) > 9_000_000
    async with (
        ScriptedUpstream([Call("apply_patch", {"input": patch})]) as upstream,
        serving(upstream.url) as url,
    ):
        reply = await run_turn("json", url.removesuffix("/v1"), request())
        assert reply.response["output"][0]["input"] == patch


@pytest.mark.parametrize("text", ["\0", "*** Begin Patch\n*** Add File: a\0b\n+\0\n*** End Patch"])
async def test_control_characters_are_judged_like_any_other(text: str) -> None:
    async with (
        ScriptedUpstream([Call("apply_patch", {"input": text})]) as upstream,
        serving(upstream.url) as url,
    ):
        reply = await run_turn("ws", url.removesuffix("/v1"), request())
        assert reply.response["output"][0]["input"] == text


async def test_half_a_surrogate_pair_in_the_arguments_stays_what_was_written() -> None:
    arguments = '{"input": "\\ud800 x"}'
    assert json.loads(arguments)
    async with (
        ScriptedUpstream([Call("apply_patch", arguments)]) as upstream,
        serving(upstream.url) as url,
    ):
        reply = await run_turn("sse", url.removesuffix("/v1"), request())
        assert reply.response["output"][0]["input"] == "\\ud800 x"
