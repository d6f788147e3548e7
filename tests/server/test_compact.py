"""Compaction over the wire: `/responses/compact`, and `context_management` in the middle of a response."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from tests.scripted import Answer, Call, Received, Refuse, ScriptedUpstream
from tests.server.clients import JSON, gateway_for, run_turn, sse_frames, ws_turn
from tests.shared import check_response, check_stream

ASK = "Summarise this conversation"
FULL = Refuse(400, {"error": {"message": "maximum context length is 10 tokens"}})
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "blue"}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
EDIT = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
LONG = "a long story " * 500


def script(request: Received) -> Any:
    if request.texts and request.texts[-1].startswith(ASK):
        return "what was said"
    return f"echo {request.texts[-1]}"


def message(role: str, text: str) -> JSON:
    return {"type": "message", "role": role, "content": text}


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(script) as upstream:
        yield upstream
        upstream.check()


@pytest.fixture
async def gateway(upstream: ScriptedUpstream) -> AsyncIterator[Gateway]:
    async with gateway_for(upstream.url) as gateway:
        yield gateway


async def compact(gateway: Gateway, **body: Any) -> tuple[int, JSON]:
    url = f"{gateway.url}/v1/responses/compact"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"model": "scripted", **body}) as answer,
    ):
        return answer.status, await answer.json()


async def test_a_window_is_the_users_messages_and_one_item(
    gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    items = [message("developer", "Be kind."), message("user", "hi"), CALL, OUTPUT]
    status, window = await compact(gateway, input=items, instructions="Do.", tools=[TOOL])
    assert status == 200
    check_response(window)
    assert window["object"] == "response.compaction"
    kinds = [(item["type"], item.get("role")) for item in window["output"]]
    assert kinds == [("message", "user"), ("compaction", None)]
    assert window["output"][0]["content"] == [{"type": "input_text", "text": "hi"}]
    asked = upstream.requests[0]
    assert asked.outputs == ["blue"]
    assert asked.body["tool_choice"] == "none"
    body = {"model": "scripted", "input": [*window["output"], message("user", "on")]}
    reply = await run_turn("json", gateway.url, body)
    assert reply.text == "echo on"
    history = upstream.requests[-1].history
    # The system text of the window's own past comes back, the calls do not.
    assert len(history) == 4
    assert "Be kind." in str(history)
    assert "what was said" in str(history)
    assert "blue" not in str(history)


async def test_a_stored_response_can_be_compacted(gateway: Gateway) -> None:
    first = await run_turn("json", gateway.url, {"model": "scripted", "input": "one"})
    status, window = await compact(gateway, previous_response_id=first.response["id"])
    assert status == 200
    assert [item["type"] for item in window["output"]] == ["message", "compaction"]


async def test_a_pending_call_is_told_as_pending_and_answered_afterwards(
    gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    status, window = await compact(gateway, input=[message("user", "hi"), CALL], tools=[TOOL])
    assert status == 200
    (told,) = upstream.requests[0].outputs
    assert "still running" in told
    assert "abort" not in told
    body = {"model": "scripted", "input": [*window["output"], OUTPUT], "tools": [TOOL]}
    reply = await run_turn("json", gateway.url, body)
    assert reply.response["status"] == "completed"
    assert upstream.requests[-1].outputs == ["blue"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "hi", "model": None}, "model"),
        ({}, "input"),
        ({"input": [OUTPUT]}, "input"),
        (
            {"input": [{"type": "compaction", "encrypted_content": "gAAAA"}]},
            "input[0].encrypted_content",
        ),
        ({"input": "x", "previous_response_id": "resp_x"}, "previous_response_id"),
    ],
)
async def test_what_cannot_be_compacted_is_named(gateway: Gateway, body: JSON, param: str) -> None:
    status, error = await compact(gateway, **body)
    assert (status, error["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "harm", [lambda b: b[:-8], lambda b: b[:20] + "AAAA" + b[24:], lambda b: ""]
)
async def test_a_cut_or_altered_blob_names_its_field(gateway: Gateway, harm: Any) -> None:
    _, window = await compact(gateway, input="hi")
    item = window["output"][-1]
    bad = {**item, "encrypted_content": harm(item["encrypted_content"])}
    body = {"model": "scripted", "input": [message("user", "a"), bad]}
    reply = await run_turn("json", gateway.url, body)
    assert (reply.status, reply.error["param"]) == (400, "input[1].encrypted_content")
    assert reply.error["code"] == "invalid_encrypted_content"


async def test_half_a_summary_is_an_error() -> None:
    async with (
        ScriptedUpstream([Answer(["half"], finish="length")]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        status, error = await compact(gateway, input="hi")
        assert status == 502
        assert "cut off" in error["error"]["message"]


async def test_a_full_context_is_summarised_in_part_and_once() -> None:
    async with (
        ScriptedUpstream([FULL, "the rest", FULL, FULL]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        items = [message("user", LONG), CALL, OUTPUT, message("user", "short")]
        status, _ = await compact(gateway, input=items)
        assert status == 200
        assert upstream.requests[1].texts[0] == "short"
        assert upstream.requests[1].outputs == ["blue"]
        status, error = await compact(gateway, input=items)
        assert (status, error["error"]["code"]) == (400, "context_length_exceeded")
        assert len(upstream.requests) == 4


# --- inside a response


async def test_a_response_compacts_first_and_then_answers(
    gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    items = [message("developer", "Be kind."), message("user", LONG), message("assistant", "ok")]
    request = {"model": "scripted", "input": [*items, message("user", "now")], **EDIT}
    reply = await run_turn("sse", gateway.url, request)
    assert reply.types[2:5] == [
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
    ]
    kinds = [item["type"] for item in reply.response["output"]]
    assert kinds == ["compaction", "message"]
    assert reply.text == "echo now"
    assert "now" not in upstream.requests[0].texts
    after = upstream.requests[1]
    assert after.texts[-1] == "now"
    assert "Be kind." in str(after.history)
    assert LONG not in str(after.history)
    # An append-only client sends everything again; a chain goes on from the item.
    resend = [*request["input"], *reply.response["output"], message("user", "more")]
    again = await run_turn("json", gateway.url, {**request, "input": resend})
    chain = {**request, "input": "more", "previous_response_id": reply.response["id"]}
    chained = await run_turn("json", gateway.url, chain)
    assert again.text == chained.text == "echo more"
    assert len(upstream.requests) == 4
    assert upstream.requests[2].history == upstream.requests[3].history
    assert upstream.requests[2].history[: len(after.history)] == after.history


async def test_a_socket_goes_on_from_the_compaction(
    gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        ask = {"model": "scripted", "store": False, **EDIT}
        first = await ws_turn(socket, {**ask, "input": LONG})
        assert [item["type"] for item in first.response["output"]] == ["message"]
        id = first.response["id"]
        second = await ws_turn(socket, {**ask, "input": "two", "previous_response_id": id})
        kinds = [item["type"] for item in second.response["output"]]
        assert kinds == ["compaction", "message"]
        id = second.response["id"]
        third = await ws_turn(socket, {**ask, "input": "three", "previous_response_id": id})
        assert third.text == "echo three"
        assert upstream.requests[-1].texts[-2:] == ["two", "three"]
        assert LONG not in str(upstream.requests[-1].history)


async def test_calls_and_outputs_stay_together_in_the_middle_of_a_turn() -> None:
    def calling(request: Received) -> Any:
        if request.texts[-1].startswith(ASK):
            return "what was said"
        return "done" if request.outputs else [Call("look", {}), Call("look", {"n": 2})]

    async with (
        ScriptedUpstream(calling) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        ask = {"model": "scripted", "tools": [TOOL]}
        first = await run_turn("json", gateway.url, {**ask, "input": LONG})
        calls = [item["call_id"] for item in first.response["output"]]
        outputs = [{**OUTPUT, "call_id": call_id, "output": call_id} for call_id in calls]
        request = {**ask, **EDIT, "input": outputs, "previous_response_id": first.response["id"]}
        reply = await run_turn("sse", gateway.url, request)
        assert [item["type"] for item in reply.response["output"]] == ["compaction", "message"]
        summary, after = upstream.requests[1:]
        assert summary.outputs == []
        assert after.outputs == calls
        upstream.check()


async def test_below_the_threshold_nothing_happens(gateway: Gateway) -> None:
    reply = await run_turn("json", gateway.url, {"model": "scripted", "input": "hi", **EDIT})
    assert [item["type"] for item in reply.response["output"]] == ["message"]


async def test_one_message_alone_is_not_summarised(gateway: Gateway) -> None:
    reply = await run_turn("json", gateway.url, {"model": "scripted", "input": LONG, **EDIT})
    assert [item["type"] for item in reply.response["output"]] == ["message"]


@pytest.mark.parametrize(
    "edit", [{"type": "other"}, {"type": "compaction", "compact_threshold": 1}]
)
async def test_other_context_management_is_refused(gateway: Gateway, edit: JSON) -> None:
    body = {"model": "scripted", "input": "hi", "context_management": [edit]}
    reply = await run_turn("json", gateway.url, body)
    assert reply.status == 400
    assert reply.error["param"].startswith("context_management[0]")


async def test_a_summary_that_fails_inside_a_response_fails_it() -> None:
    async with (
        ScriptedUpstream([Answer(["half"], finish="length")]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        items = [message("user", LONG), message("assistant", "ok"), message("user", "now")]
        body = {"model": "scripted", "input": items, "stream": True, **EDIT}
        url = f"{gateway.url}/v1/responses"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            frames = sse_frames(await answer.text())
        check_stream(frames, request=body, ignore=("I5",))
        assert frames[-1][1]["type"] == "response.failed"
        assert frames[-1][1]["response"]["output"] == []
