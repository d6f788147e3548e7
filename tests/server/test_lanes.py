"""Lanes, row by row of the WebSocket guide: `stream_id`, order, limits and their exact words."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from tests.scripted import Refuse, ScriptedUpstream, hang
from tests.server.clients import JSON, gateway_for, ws_reply

CREATE: JSON = {"type": "response.create", "model": "scripted", "input": "hi", "store": False}
Socket = aiohttp.ClientWebSocketResponse
ENDS = ("response.completed", "response.failed", "error")


def script(request: Any) -> Any:
    last = request.texts[-1]
    if last == "refuse":
        return Refuse(503, {"error": {"message": "busy"}})
    return hang(["slow"], after=2) if last == "slow" else f"echo {last}"


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(script) as upstream:
        yield upstream


@pytest.fixture
async def gateway(upstream: ScriptedUpstream) -> AsyncIterator[Gateway]:
    async with gateway_for(upstream.url) as gateway:
        yield gateway


@pytest.fixture
async def socket(gateway: Gateway) -> AsyncIterator[Socket]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        yield socket


async def turn(socket: Socket, lane: str | None, text: str = "hi", **fields: Any) -> JSON:
    """The last event of one create."""
    frame = {**CREATE, "input": text, **fields}
    await socket.send_json(frame if lane is None else {**frame, "stream_id": lane})
    reply = await ws_reply(socket)
    for event in reply.events:
        assert event.get("stream_id") == lane
    return reply.events[-1]


async def test_an_invalid_stream_id_in_the_documented_words_without_echo(socket: Socket) -> None:
    for bad in ("", "a b", "ä", "x" * 257, 5, ["a"]):
        await socket.send_json({**CREATE, "stream_id": bad})
        assert await socket.receive_json() == {
            "type": "error",
            "status": 400,
            "error": {
                "type": "invalid_request_error",
                "code": "invalid_stream_id",
                "message": "The 'stream_id' field must be a non-empty string with at most 256 "
                "characters and may only contain letters, numbers, underscores, hyphens, and "
                "periods.",
                "param": "stream_id",
            },
        }


async def test_the_longest_stream_id_and_all_its_letters_are_good(socket: Socket) -> None:
    for good in ("x" * 256, "aZ09_.-"):
        assert (await turn(socket, good))["type"] == "response.completed"


async def test_the_33rd_named_lane_in_the_documented_words(socket: Socket) -> None:
    for number in range(32):
        await turn(socket, f"lane{number}")
    await socket.send_json({**CREATE, "stream_id": "more"})
    assert await socket.receive_json() == {
        "type": "error",
        "status": 400,
        "stream_id": "more",
        "error": {
            "type": "invalid_request_error",
            "code": "websocket_stream_limit_reached",
            "message": "This WebSocket connection has reached its maximum number of distinct "
            "stream IDs (32). Reuse an existing stream_id or open a new WebSocket connection.",
            "param": "stream_id",
        },
    }
    assert (await turn(socket, None))["type"] == "response.completed"


async def test_an_unknown_previous_response_echoes_the_lane(socket: Socket) -> None:
    error = await turn(socket, "a", previous_response_id="resp_abc")
    assert error["error"]["code"] == "previous_response_not_found"
    assert error["error"]["message"] == "Previous response with id 'resp_abc' not found."


async def test_an_error_of_one_lane_leaves_the_others_running(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    await socket.send_json({**CREATE, "stream_id": "a", "input": "slow"})
    await upstream.until(lambda it: it.hanging)
    await socket.send_json({**CREATE, "stream_id": "b", "tools": [None]})
    seen = []
    while not seen or seen[-1]["type"] != "error":
        seen.append(await socket.receive_json())
    assert seen[-1]["stream_id"] == "b"
    upstream.release()
    assert (await ws_reply(socket)).response["status"] == "completed"


async def test_sequence_numbers_start_again_with_each_response(socket: Socket) -> None:
    for _ in range(2):
        await socket.send_json({**CREATE, "stream_id": "a"})
        reply = await ws_reply(socket)
        numbers = [event["sequence_number"] for event in reply.events]
        assert numbers == list(range(len(numbers)))


async def test_a_fork_waits_for_nothing_and_its_parent_goes_on(socket: Socket) -> None:
    parent = (await turn(socket, "a", "one"))["response"]["id"]
    fork = await turn(socket, "b", "two", previous_response_id=parent)
    main = await turn(socket, "a", "three", previous_response_id=parent)
    assert fork["type"] == main["type"] == "response.completed"


@pytest.mark.parametrize("failing", [{"input": "refuse"}, {"tools": [None]}])
async def test_a_fork_that_fails_keeps_the_parent(socket: Socket, failing: JSON) -> None:
    parent = (await turn(socket, "a", "one"))["response"]["id"]
    fork = {**CREATE, "stream_id": "b", "previous_response_id": parent, **failing}
    await socket.send_json(fork)
    assert (await ws_reply(socket)).types == ["error"]
    main = await turn(socket, "a", "three", previous_response_id=parent)
    assert main["type"] == "response.completed"


async def test_a_parent_that_was_overtaken_in_its_lane_is_gone_for_forks(socket: Socket) -> None:
    parent = (await turn(socket, "a", "one"))["response"]["id"]
    await turn(socket, "a", "two")
    error = await turn(socket, "b", previous_response_id=parent)
    assert error["error"]["code"] == "previous_response_not_found"


async def test_lanes_die_with_the_socket(gateway: Gateway, socket: Socket) -> None:
    parent = (await turn(socket, "a", "one"))["response"]["id"]
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as other,
    ):
        error = await turn(other, "a", previous_response_id=parent)
        assert error["error"]["code"] == "previous_response_not_found"


async def test_a_warm_up_in_a_named_lane_is_continued_there(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    warm = await turn(socket, "a", "prefix", generate=False)
    assert warm["response"]["output"] == []
    await turn(socket, "a", "go", previous_response_id=warm["response"]["id"])
    assert upstream.requests[-1].texts == ["prefix", "go"]


async def test_steering_and_injecting_give_the_input_back(socket: Socket) -> None:
    await socket.send_json(
        {"type": "response.steer", "previous_response_id": "resp_1", "input": "left"}
    )
    failed = await socket.receive_json()
    assert failed["type"] == "response.steer.failed"
    assert failed["steer"] == {"previous_response_id": "resp_1", "input": "left"}
    assert failed["error"]["type"] == "invalid_request_error"
    assert failed["error"]["code"] == "steering_not_supported"
    await socket.send_json({"type": "response.inject", "response_id": "resp_1", "input": []})
    failed = await socket.receive_json()
    assert (failed["type"], failed["input"]) == ("response.inject.failed", [])
    assert failed["error"]["code"] == "response_not_found"
    assert (await turn(socket, None))["type"] == "response.completed"
