"""What holds for all three transports and both dialects: one relay, three sinks."""

import asyncio

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.config import Config, ServerConfig, UpstreamConfig
from gateway.turn.turn import Turn
from tests.answers import Answer
from tests.scripted import Call, Raw, Refuse, ScriptedUpstream, Text, break_off, hang
from tests.server.clients import (
    APIS,
    JSON,
    TRANSPORTS,
    GatedUpstream,
    gateway_for,
    run_turn,
    stream,
)

REQUEST: JSON = {"model": "scripted", "input": "hi"}
TOOL: JSON = {
    "type": "function",
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    "strict": False,
}

everywhere = pytest.mark.parametrize("transport", TRANSPORTS)
both_apis = pytest.mark.parametrize("api", APIS)
LIVE = pytest.mark.parametrize("transport", ["sse", "ws"])


@everywhere
@both_apis
async def test_a_text_answer(transport: str, api: str) -> None:
    async with ScriptedUpstream(["Hello there, friend."]) as upstream:
        async with gateway_for(upstream.url, api) as gateway:
            reply = await run_turn(transport, gateway.url, REQUEST)
        upstream.check()
    assert reply.response["status"] == "completed"
    assert reply.text == "Hello there, friend."
    assert reply.response["usage"]["total_tokens"] == 18
    assert upstream.requests[0].texts == ["hi"]


@everywhere
@both_apis
async def test_a_call_and_its_output_by_the_store(transport: str, api: str) -> None:
    script = [[Text("I look."), Call("look", {"at": "sky"})], "It is blue."]
    async with ScriptedUpstream(script) as upstream:
        async with gateway_for(upstream.url, api) as gateway:
            first = await run_turn(transport, gateway.url, {**REQUEST, "tools": [TOOL]})
            call = first.response["output"][-1]
            output = {
                "type": "function_call_output",
                "call_id": call["call_id"],
                "output": "blue",
            }
            second = await run_turn(
                transport,
                gateway.url,
                {
                    **REQUEST,
                    "tools": [TOOL],
                    "previous_response_id": first.response["id"],
                    "input": [output],
                },
            )
        upstream.check()
    assert (call["name"], call["arguments"]) == ("look", '{"at": "sky"}')
    assert second.text == "It is blue."
    assert upstream.requests[1].calls == [("look", '{"at": "sky"}')]
    assert upstream.requests[1].outputs == ["blue"]
    assert upstream.requests[1].texts == ["hi"]


@everywhere
@both_apis
async def test_a_refusal_of_the_upstream_keeps_status_code_and_headers(
    transport: str, api: str
) -> None:
    error = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
    async with (
        ScriptedUpstream([Refuse(429, error, (("Retry-After", "7"),))]) as upstream,
        gateway_for(upstream.url, api) as gateway,
    ):
        reply = await run_turn(transport, gateway.url, REQUEST)
    assert reply.status == 429
    assert reply.error["code"] == "rate_limit_exceeded"
    assert reply.error["message"] == "slow down"
    assert reply.headers["retry-after"] == "7"
    assert len(reply.events) == (1 if transport == "ws" else 0)


@everywhere
async def test_a_full_context_window_is_called_so(transport: str) -> None:
    body = {"error": {"message": "maximum context length is 10 tokens", "code": 400}}
    async with (
        ScriptedUpstream([Refuse(400, body)]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        reply = await run_turn(transport, gateway.url, REQUEST)
    assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")


@everywhere
@both_apis
async def test_an_answer_cut_by_length_is_incomplete(transport: str, api: str) -> None:
    async with (
        ScriptedUpstream([Answer(["Once upon"], finish="length")]) as upstream,
        gateway_for(upstream.url, api) as gateway,
    ):
        reply = await run_turn(transport, gateway.url, REQUEST)
    assert reply.response["status"] == "incomplete"
    assert reply.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert reply.text == "Once upon"


@LIVE
@both_apis
async def test_a_connection_that_breaks_is_a_failed_response(transport: str, api: str) -> None:
    async with (
        ScriptedUpstream([break_off(["a longer answer than that"], after=3)]) as upstream,
        gateway_for(upstream.url, api) as gateway,
    ):
        reply = await run_turn(transport, gateway.url, REQUEST)
    assert reply.types[-1] == "response.failed"
    assert reply.types.count("response.failed") == 1
    assert reply.error["code"] == "upstream_broke_off"
    assert reply.response["usage"]["total_tokens"] == 0


async def test_a_blocking_answer_that_breaks_is_a_status_and_a_response() -> None:
    raw = Raw(b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n')
    async with (
        ScriptedUpstream([raw]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        reply = await run_turn("json", gateway.url, REQUEST)
    assert reply.status == 502
    assert reply.response["status"] == "failed"
    assert reply.text == "half"
    assert reply.error.keys() == {"message", "type", "param", "code"}


@everywhere
async def test_an_upstream_that_is_away_is_an_error_in_words(transport: str) -> None:
    async with gateway_for("http://127.0.0.1:9/v1") as gateway:
        reply = await run_turn(transport, gateway.url, REQUEST)
    assert (reply.status, reply.error["code"]) == (502, "upstream_unreachable")
    assert reply.error["message"] == (
        "The model server at 127.0.0.1:9 cannot be reached (connection refused)."
    )


@everywhere
async def test_a_warm_up_costs_the_upstream_nothing(transport: str) -> None:
    async with (
        ScriptedUpstream([]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        reply = await run_turn(transport, gateway.url, {**REQUEST, "generate": False})
    assert reply.response["status"] == "completed"
    assert reply.response["output"] == []
    assert upstream.requests == []


@LIVE
async def test_a_long_silence_begins_the_stream_and_is_broken(transport: str) -> None:
    whole = b'data: {"choices":[{"index":0,"delta":{"content":"late"}}]}\n\ndata: [DONE]\n\n'
    async with (
        GatedUpstream(200, whole, "text/event-stream") as upstream,
        gateway_for(upstream.url, heartbeat_seconds=0.01, created_after_seconds=0.01) as gateway,
        aiohttp.ClientSession() as session,
    ):
        events = []
        async for event in stream(session, transport, gateway.url, REQUEST):
            events.append(event)
            if len(events) == 5:
                upstream.gate.set()
    types = [event["type"] for event in events]
    assert types[:5] == ["response.created"] + ["response.in_progress"] * 4
    assert types[-1] == "response.completed"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@LIVE
async def test_an_error_after_a_long_silence_is_a_failed_response(transport: str) -> None:
    body = b'{"error": {"message": "out of memory"}}'
    async with (
        GatedUpstream(500, body, "application/json") as upstream,
        gateway_for(upstream.url, created_after_seconds=0.01) as gateway,
        aiohttp.ClientSession() as session,
    ):
        types = []
        async for event in stream(session, transport, gateway.url, REQUEST):
            types.append(event["type"])
            upstream.gate.set()
    assert types == ["response.created", "response.in_progress", "response.failed"]
    assert event["response"]["error"]["message"] == "out of memory"


async def test_a_blocking_request_waits_for_the_status_however_long() -> None:
    body = b'{"error": {"message": "bad", "code": "nope"}}'
    async with (
        GatedUpstream(400, body, "application/json") as upstream,
        gateway_for(upstream.url, created_after_seconds=0.001) as gateway,
    ):
        turn = asyncio.ensure_future(run_turn("json", gateway.url, REQUEST))
        await upstream.asked.wait()
        asyncio.get_running_loop().call_later(0.02, upstream.gate.set)
        reply = await turn
    assert (reply.status, reply.error["code"]) == (400, "nope")


@everywhere
@both_apis
async def test_a_client_that_goes_stops_the_upstream(transport: str, api: str) -> None:
    after = 0 if transport == "json" else 2  # a blocking body has no middle
    async with (
        ScriptedUpstream([hang(["a long story"], after=after)]) as upstream,
        gateway_for(upstream.url, api) as gateway,
    ):
        turn = asyncio.ensure_future(run_turn(transport, gateway.url, REQUEST))
        await upstream.until(lambda it: it.hanging)
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        await upstream.until(lambda it: it.disconnects == 1)


@everywhere
async def test_a_client_that_goes_during_the_prefill_stops_the_upstream(transport: str) -> None:
    async with (
        GatedUpstream(200, b"", "text/event-stream") as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        turn = asyncio.ensure_future(run_turn(transport, gateway.url, REQUEST))
        await upstream.asked.wait()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        await upstream.left.wait()


@everywhere
async def test_a_bug_of_ours_is_an_id_and_no_trace(
    transport: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(turn: Turn, event: JSON) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(Turn, "receive", broken)
    async with (
        ScriptedUpstream(["hello", "hello"]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        reply = await run_turn(transport, gateway.url, REQUEST)
    assert reply.response["status"] == "failed"
    message = reply.error["message"]
    assert "err_" in message
    assert "secret" not in str(reply)
    assert message.split()[-1].rstrip(".") in caplog.text
    assert "ZeroDivisionError" in caplog.text


@everywhere
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"input": 5}, "input"),
        ({"tools": [None]}, "tools[0]"),
        ({"tools": "all"}, "tools"),
        ({"temperature": "hot"}, "temperature"),
        ({"previous_response_id": 7}, "previous_response_id"),
        ({"input": [{"type": "function_call_output", "output": ""}]}, "input[0].call_id"),
        ({"conversation": "conv_1"}, "conversation"),
    ],
)
async def test_a_bad_request_names_the_field_and_harms_nobody(
    transport: str, change: JSON, param: str
) -> None:
    async with (
        ScriptedUpstream(["fine"]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        bad = await run_turn(transport, gateway.url, {**REQUEST, **change})
        good = await run_turn(transport, gateway.url, REQUEST)
    assert bad.status == 400
    assert bad.error["param"] == param
    assert bad.error["type"] == "invalid_request_error"
    assert len(bad.events) == (1 if transport == "ws" else 0)
    assert good.text == "fine"
    assert len(upstream.requests) == 1


@everywhere
async def test_an_unknown_previous_response(transport: str) -> None:
    async with gateway_for("http://127.0.0.1:9/v1") as gateway:
        reply = await run_turn(
            transport, gateway.url, {**REQUEST, "previous_response_id": "resp_abc"}
        )
    assert reply.status == 400
    assert reply.error == {
        "message": "Previous response with id 'resp_abc' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }


@everywhere
async def test_models_are_renamed_on_the_way(transport: str) -> None:
    async with ScriptedUpstream(["hello"]) as upstream:
        config = Config(
            server=ServerConfig(port=0),
            upstream=UpstreamConfig(url=upstream.url, model={"gpt-5": "scripted"}),
        )
        async with Gateway(config) as gateway:
            reply = await run_turn(transport, gateway.url, {**REQUEST, "model": "gpt-5"})
    assert upstream.bodies[0]["model"] == "scripted"
    assert reply.response["model"] == "gpt-5"
