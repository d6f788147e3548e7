"""What the status page is told of turns: while they run, after they have ended, and never more than that."""

import asyncio
from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.errors import InternalError, RequestError, UpstreamError
from gateway.server import activity
from gateway.server.activity import Activity, LiveTurn
from gateway.server.delivery import ClientGone
from gateway.server.onlookers import ACTIVITY
from gateway.server.upstream_health import UpstreamHealth
from gateway.server.watching import Begun, Caller
from gateway.server.words import in_words
from gateway.turn.history import History
from tests.scripted import Call, Refuse, ScriptedUpstream, break_off, hang
from tests.server.clients import JSON, gateway_for, run_turn, stream, ws_turn
from tests.server.recorded import APPLY_PATCH, PATCH, REQUEST, SEARCH, WEATHER

SECRET = "a sentence that only the user and the model may see"


def shown(gateway: Gateway, after: int = 0) -> JSON:
    return gateway.app[ACTIVITY].shown(after)


async def one_turn(script: list[Any], transport: str = "sse", **request: Any) -> JSON:
    async with ScriptedUpstream(script) as upstream, gateway_for(upstream.url) as gateway:
        await run_turn(transport, gateway.url, {**REQUEST, **request})
        found = shown(gateway)
    assert found["running"] == []
    (turn,) = found["turns"]
    return dict(turn)


@pytest.mark.parametrize("transport", ["json", "sse", "ws"])
async def test_a_turn_that_has_ended(transport: str) -> None:
    turn = await one_turn([[SECRET, Call("apply_patch", {"input": PATCH})]], transport)
    assert (turn["number"], turn["order"]) == (1, 1)
    assert (turn["model"], turn["transport"], turn["state"]) == ("scripted", transport, "completed")
    assert turn["tools"] == ["apply_patch", "tool_search", "mcp__weather.forecast"]
    assert turn["called"] == {"apply_patch": 1}
    assert turn["verdicts"] == {"valid": 1}
    assert (turn["input_tokens"], turn["cached_tokens"], turn["output_tokens"]) == (11, 3, 7)
    assert turn["error"] is None
    assert turn["id"].startswith("resp_")
    assert len(turn["id"]) == activity.SHOWN_ID_CHARS
    times = [turn["ms"][name] for name in ("asked", "answered", "heard", "first", "last", "end")]
    assert times == sorted(times)


async def test_nothing_that_was_said_is_kept() -> None:
    refusal = Refuse(400, {"error": {"message": f"no: {SECRET}"}})
    script = [[SECRET, Call("apply_patch", {"input": SECRET})], refusal]
    async with ScriptedUpstream(script) as upstream, gateway_for(upstream.url) as gateway:
        for _ in script:
            await run_turn("sse", gateway.url, {**REQUEST, "input": SECRET, "instructions": SECRET})
        found = shown(gateway)
    assert SECRET not in str(found)
    assert found["turns"][1]["error"]["words"] == "The model server refuses the request."


async def test_a_turn_while_it_runs() -> None:
    async with (
        ScriptedUpstream([hang(["a long", Call("look", {})], after=3)]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
    ):
        running = stream(session, "ws", gateway.url, REQUEST)
        async for event in running:
            if event["type"] == "response.output_text.delta":
                break
        (live,) = shown(gateway)["running"]
        upstream.release()
        async for _ in running:
            pass
        (ended,) = shown(gateway)["turns"]
    assert live["state"] == "streaming"
    assert 0 < live["events"] < ended["events"]
    assert live["ms"]["now"] >= live["ms"]["first"]
    assert "end" not in live["ms"]
    assert ended["called"] == {"look": 1}


async def test_a_turn_that_waits_for_the_model_server() -> None:
    async with (
        ScriptedUpstream([hang(after=0)]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        turn = asyncio.create_task(run_turn("json", gateway.url, REQUEST))
        await upstream.until(lambda it: it.hanging)
        (live,) = shown(gateway)["running"]
        assert live["state"] == "sent"
        assert "first" not in live["ms"]
        upstream.release()
        await turn


@pytest.mark.parametrize(
    ("reply", "state", "words"),
    [
        (break_off(["never whole"], after=3), "failed", "The model server broke off its answer."),
        (Refuse(503), "failed", "The model server is loading or overloaded."),
        (
            Refuse(400, {"error": {"message": "maximum context length is 10 tokens"}}),
            "failed",
            "The conversation is longer than the model's context.",
        ),
    ],
)
async def test_a_failure_in_words(reply: Any, state: str, words: str) -> None:
    turn = await one_turn([reply])
    assert (turn["state"], turn["error"]["words"]) == (state, words)
    assert turn["error"]["upstream"]


async def test_a_request_that_cannot_be_served() -> None:
    orphan = {"type": "function_call_output", "call_id": SECRET[:60], "output": SECRET}
    turn = await one_turn([], input=[orphan])
    assert turn["state"] == "refused"
    assert turn["error"] == {
        "words": "The request cannot be served as it is: input.",
        "status": 400,
        "upstream": False,
        "away": False,
    }


async def test_a_client_that_leaves() -> None:
    async with (
        ScriptedUpstream([hang(["word by word by word"], after=2)]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        async with aiohttp.ClientSession() as session:
            async for event in stream(session, "ws", gateway.url, REQUEST):
                if event["type"] == "response.output_text.delta":
                    break
        await upstream.until(lambda it: it.disconnects)
    (turn,) = shown(gateway)["turns"]  # it has ended when the gateway has
    assert (turn["state"], turn["error"]["words"]) == ("cancelled", "The client has gone.")


async def test_only_what_is_new_is_told_again_and_only_so_much_is_kept() -> None:
    count = activity.MAX_RECENT_TURNS + 10
    async with (
        ScriptedUpstream([]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        for _ in range(count):
            await ws_turn(socket, {"model": "m", "input": "hi", "generate": False})
        found = shown(gateway)
        assert len(found["turns"]) == activity.MAX_RECENT_TURNS
        assert found["last"] == count
        assert [turn["order"] for turn in found["turns"][:2]] == [11, 12]
        assert [turn["order"] for turn in shown(gateway, count - 2)["turns"]] == [count - 1, count]
        assert shown(gateway, count)["turns"] == []
    assert sum(sum(counts.values()) for _, counts in found["minutes"]) == count


def begun(request: JSON) -> Begun:
    return Begun({"model": "m", **request}, History(), "ws req_1", Caller())


async def never() -> bool:
    return False


def watched(request: JSON) -> JSON:
    """What is shown of a turn with that request."""
    seen = Activity(UpstreamHealth(never))
    live = seen.watch(begun(request))
    assert isinstance(live, LiveTurn)
    live.ended(None)
    return dict(seen.shown()["turns"][0])


def test_minutes_go_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Activity(UpstreamHealth(never))
    start = 1_800_000_000.0
    for minute in range(activity.MAX_SHOWN_MINUTES + 5):
        at = start + 60 * minute
        monkeypatch.setattr(activity.time, "time", lambda at=at: at)
        live = seen.watch(begun({}))
        assert isinstance(live, LiveTurn)
        live.ended(None)
    minutes = [minute for minute, _ in seen.shown()["minutes"]]
    assert len(minutes) == activity.MAX_SHOWN_MINUTES
    assert minutes[-1] - minutes[0] == activity.MAX_SHOWN_MINUTES - 1


def test_names_are_bounded_and_come_from_additional_tools_as_well() -> None:
    many = [{"type": "function", "name": f"tool_{n}"} for n in range(100)]
    items = [{"type": "additional_tools", "tools": [WEATHER, APPLY_PATCH]}]
    turn = watched({"tools": [SEARCH, *many], "input": items, "model": "x" * 500})
    assert len(turn["tools"]) == activity.MAX_SHOWN_TOOLS
    assert turn["tool_count"] == 103
    assert len(turn["model"]) == activity.MAX_SHOWN_NAME_CHARS + 1
    assert watched({"input": items})["tools"] == ["mcp__weather.forecast", "apply_patch"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ClientGone(), "The client has gone."),
        (asyncio.CancelledError(), "The client has gone."),
        (ValueError(SECRET), "The gateway has failed; its log says where."),
        (InternalError(SECRET), "The gateway has failed; its log says where."),
        (UpstreamError(SECRET), "The model server's answer was not complete, or not readable."),
        (UpstreamError(SECRET, status=418), "The model server reports an error."),
        (
            UpstreamError(SECRET, code="upstream_timeout"),
            "The model server did not answer in time.",
        ),
        (RequestError(SECRET), "The request cannot be served as it is."),
        (
            RequestError(SECRET, param="p" * 500),
            f"The request cannot be served as it is: {'p' * 80}.",
        ),
    ],
)
def test_words_never_quote_a_message(error: BaseException, words: str) -> None:
    assert in_words(error) == words
