"""WebSocket mode: frames of every badness, continuation on the socket, warm-up, queueing, the end."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType

from gateway.app import Gateway
from gateway.server.keys import CONNECTIONS
from tests.scripted import Call, Refuse, ScriptedUpstream, hang
from tests.server.clients import JSON, gateway_for, run_turn, ws_reply, ws_turn

LIMIT = 4096
CREATE: JSON = {"type": "response.create", "model": "scripted", "input": "hi", "store": False}
Socket = aiohttp.ClientWebSocketResponse


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: f"echo {request.texts[-1]}") as upstream:
        yield upstream
        upstream.check()


@pytest.fixture
async def gateway(upstream: ScriptedUpstream) -> AsyncIterator[Gateway]:
    async with gateway_for(upstream.url, max_message_bytes=LIMIT) as gateway:
        yield gateway


@pytest.fixture
async def socket(gateway: Gateway) -> AsyncIterator[Socket]:
    async with aiohttp.ClientSession() as session, connect(session, gateway) as socket:
        yield socket


def connect(session: aiohttp.ClientSession, gateway: Gateway) -> Any:
    return session.ws_connect(f"{gateway.url}/v1/responses")


def text(reply: Any) -> str:
    assert reply.response, reply.error
    return str(reply.text)


@pytest.mark.parametrize(
    ("frame", "param", "words"),
    [
        ("", None, "JSON"),
        ("{", None, "JSON"),
        ('{"type": "response.create", "input": "\\ud800"}', None, "JSON"),
        ("[" * 1000, None, "JSON"),
        ("[]", None, "object"),
        ("null", None, "object"),
        ('"response.create"', None, "object"),
        ("{}", "type", "'type'"),
        ('{"type": null}', "type", "'type'"),
        ('{"type": 5}', "type", "'type'"),
        ('{"type": "response.cancel"}', "type", "response.cancel"),
        ('{"type": "response.create"}', "model", "'model'"),
        ('{"type": "response.create", "model": "m"}', "input", "'input'"),
        ('{"type": "response.create", "model": 1, "input": "x"}', "model", "'model'"),
        (json.dumps({**CREATE, "tools": [None]}), "tools[0]", "tools[0]"),
        (json.dumps({**CREATE, "tools": 5}), "tools", "'tools'"),
        (json.dumps({**CREATE, "input": [None]}), "input[0]", "input[0]"),
        (json.dumps({**CREATE, "background": True}), "background", "background"),
        (json.dumps({**CREATE, "stream_id": ""}), "stream_id", "stream_id"),
        (json.dumps({**CREATE, "stream_id": 5}), "stream_id", "stream_id"),
        (json.dumps({**CREATE, "stream_id": "a b"}), "stream_id", "stream_id"),
        (json.dumps({**CREATE, "previous_response_id": 5}), "previous_response_id", "string"),
    ],
)
async def test_a_bad_frame_is_one_error_frame_and_the_socket_stays(
    socket: Socket, upstream: ScriptedUpstream, frame: str, param: str | None, words: str
) -> None:
    await socket.send_str(frame)
    error = await socket.receive_json()
    assert error.keys() == {"type", "status", "error"}
    assert (error["type"], error["status"]) == ("error", 400)
    assert error["error"]["type"] == "invalid_request_error"
    assert error["error"]["param"] == param
    assert words in error["error"]["message"]
    assert upstream.requests == []
    assert text(await ws_turn(socket, CREATE)) == "echo hi"


@pytest.mark.parametrize("data", [b"\x00\xff", json.dumps(CREATE).encode()])
async def test_a_binary_frame_is_refused_and_the_socket_stays(socket: Socket, data: bytes) -> None:
    await socket.send_bytes(data)
    error = await socket.receive_json()
    assert (error["type"], error["status"]) == ("error", 400)
    assert text(await ws_turn(socket, CREATE)) == "echo hi"


async def test_a_message_over_the_limit_is_told_and_then_closed(
    gateway: Gateway, socket: Socket
) -> None:
    async with aiohttp.ClientSession() as session, connect(session, gateway) as other:
        await other.send_json({**CREATE, "input": "x" * LIMIT})
        error = await other.receive_json()
        assert (error["type"], error["status"]) == ("error", 413)
        assert str(LIMIT) in error["error"]["message"]
        closed = await other.receive()
        assert closed.type is WSMsgType.CLOSE
        assert closed.data == 1009
    assert text(await ws_turn(socket, CREATE)) == "echo hi"


async def test_a_message_of_exactly_the_limit_is_taken(socket: Socket) -> None:
    room = LIMIT - len(json.dumps({**CREATE, "input": ""}))
    await socket.send_str(json.dumps({**CREATE, "input": "x" * room}))
    assert (await ws_reply(socket)).response["status"] == "completed"


async def test_the_handshake_tells_the_limit_and_an_id(gateway: Gateway) -> None:
    async with aiohttp.ClientSession() as session, connect(session, gateway) as socket:
        headers = socket._response.headers
        assert headers["x-codex-websocket-max-message-bytes"] == str(LIMIT)
        assert headers["x-request-id"].startswith("req_")
        assert "Sec-WebSocket-Extensions" not in headers


async def test_compression_is_a_setting(upstream: ScriptedUpstream) -> None:
    async with (
        gateway_for(upstream.url, compress=True) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses", compress=15) as socket,
    ):
        assert socket.compress == 15
        assert text(await ws_turn(socket, CREATE)) == "echo hi"


async def test_the_latest_response_is_continued_without_a_store(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    first = await ws_turn(socket, {**CREATE, "input": "one"})
    second = await ws_turn(
        socket, {**CREATE, "input": "two", "previous_response_id": first.response["id"]}
    )
    third = await ws_turn(
        socket, {**CREATE, "input": [], "previous_response_id": second.response["id"]}
    )
    assert upstream.requests[1].texts == ["one", "two"]
    assert [m["content"] for m in upstream.bodies[2]["messages"][:4]] == [
        "one",
        "echo one",
        "two",
        "echo two",
    ]
    assert third.response["previous_response_id"] == second.response["id"]
    stale = await ws_turn(socket, {**CREATE, "previous_response_id": first.response["id"]})
    assert stale.error["code"] == "previous_response_not_found"


async def test_the_history_is_a_byte_prefix_of_the_next_one(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    reply = await ws_turn(socket, {**CREATE, "input": "one"})
    for word in ("two", "three"):
        reply = await ws_turn(
            socket, {**CREATE, "input": word, "previous_response_id": reply.response["id"]}
        )
    raws = [request.raw for request in upstream.requests]
    for shorter, longer in itertools.pairwise(raws):
        assert longer.startswith(shorter.rstrip(b"]}"))


async def test_nothing_of_a_socket_is_known_to_another_one(
    gateway: Gateway, socket: Socket
) -> None:
    first = await ws_turn(socket, CREATE)
    again = {**CREATE, "previous_response_id": first.response["id"]}
    other = await run_turn("ws", gateway.url, again)
    assert other.error["code"] == "previous_response_not_found"
    assert text(await ws_turn(socket, again)) == "echo hi"


async def test_a_stored_response_is_known_everywhere_and_when_it_is_older(
    gateway: Gateway, socket: Socket, upstream: ScriptedUpstream
) -> None:
    stored = {**CREATE, "store": True}
    first = await ws_turn(socket, {**stored, "input": "one"})
    await ws_turn(socket, {**stored, "input": "two"})
    again = {**stored, "input": "three", "previous_response_id": first.response["id"]}
    assert text(await ws_turn(socket, again)) == "echo three"
    assert text(await run_turn("sse", gateway.url, {**again, "type": None})) == "echo three"
    assert upstream.requests[-1].texts == ["one", "three"]


async def test_a_stored_response_after_one_that_was_not(
    gateway: Gateway, socket: Socket, upstream: ScriptedUpstream
) -> None:
    first = await ws_turn(socket, {**CREATE, "input": "one"})
    second = await ws_turn(
        socket,
        {
            **CREATE,
            "input": "two",
            "store": True,
            "previous_response_id": first.response["id"],
        },
    )
    third: JSON = {"model": "scripted", "input": "three"}
    for transport in ("json", "sse", "ws"):
        reply = await run_turn(
            transport, gateway.url, {**third, "previous_response_id": second.response["id"]}
        )
        assert text(reply) == "echo three"
        assert upstream.requests[-1].texts == ["one", "two", "three"]


async def test_a_warm_up_is_the_prefix_of_what_follows(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    prefix = [
        {"type": "additional_tools", "role": "developer", "tools": tools},
        {"type": "message", "role": "developer", "content": "Be kind."},
    ]
    warm = await ws_turn(socket, {**CREATE, "input": prefix, "generate": False})
    assert warm.types == ["response.created", "response.in_progress", "response.completed"]
    assert warm.response["output"] == []
    assert warm.response["usage"]["total_tokens"] == 0
    assert upstream.requests == []
    reply = await ws_turn(
        socket, {**CREATE, "input": "hi", "previous_response_id": warm.response["id"]}
    )
    assert text(reply) == "echo hi"
    assert list(upstream.requests[0].functions) == ["look"]
    assert upstream.requests[0].history[0] == {"role": "system", "content": "Be kind."}


async def test_an_empty_warm_up(socket: Socket) -> None:
    warm = await ws_turn(socket, {**CREATE, "input": [], "generate": False})
    reply = await ws_turn(socket, {**CREATE, "previous_response_id": warm.response["id"]})
    assert text(reply) == "echo hi"


async def test_an_unknown_previous_response_in_the_documented_words(socket: Socket) -> None:
    await socket.send_json({**CREATE, "previous_response_id": "resp_abc"})
    assert await socket.receive_json() == {
        "type": "error",
        "status": 400,
        "error": {
            "type": "invalid_request_error",
            "code": "previous_response_not_found",
            "message": "Previous response with id 'resp_abc' not found.",
            "param": "previous_response_id",
        },
    }


@pytest.mark.parametrize(
    "failing",
    [
        {"input": [{"type": "function_call_output", "call_id": "call_x", "output": ""}]},
        {"input": "please refuse"},
        {"tools": [None]},
    ],
)
async def test_a_continuation_that_fails_evicts_its_parent(failing: JSON) -> None:
    def script(request: Any) -> Any:
        if request.texts[-1] == "please refuse":
            return Refuse(503, {"error": {"message": "busy"}})
        return "fine"

    async with (
        ScriptedUpstream(script) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        first = await ws_turn(socket, CREATE)
        again = {**CREATE, "previous_response_id": first.response["id"]}
        failed = await ws_turn(socket, {**again, **failing})
        assert failed.types == ["error"]
        second = await ws_turn(socket, again)
        assert second.error["code"] == "previous_response_not_found"
        assert text(await ws_turn(socket, CREATE)) == "fine"


async def test_a_new_chain_that_fails_leaves_the_latest_response(socket: Socket) -> None:
    first = await ws_turn(socket, CREATE)
    assert (await ws_turn(socket, {**CREATE, "model": ""})).types == ["error"]
    again = {**CREATE, "previous_response_id": first.response["id"]}
    assert text(await ws_turn(socket, again)) == "echo hi"


async def test_creates_on_one_socket_are_served_in_their_order(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    for word in ("one", "two", "three"):
        await socket.send_json({**CREATE, "input": word})
    for word in ("one", "two", "three"):
        reply = await ws_reply(socket)
        assert text(reply) == f"echo {word}"
        assert [event["sequence_number"] for event in reply.events] == list(
            range(len(reply.events))
        )


async def test_an_error_waits_for_its_turn(socket: Socket) -> None:
    await socket.send_json({**CREATE, "input": "one"})
    await socket.send_json({**CREATE, "tools": [None]})
    await socket.send_json({**CREATE, "input": "two"})
    replies = [await ws_reply(socket) for _ in range(3)]
    assert text(replies[0]) == "echo one"
    assert replies[1].types == ["error"]
    assert text(replies[2]) == "echo two"


async def test_steering_is_refused_and_its_input_returned(socket: Socket) -> None:
    steer = {"previous_response_id": "resp_1", "input": "left"}
    await socket.send_json({"type": "response.steer", **steer})
    failed = await socket.receive_json()
    assert failed["type"] == "response.steer.failed"
    assert failed["error"]["code"] == "steering_not_supported"
    assert failed["steer"] == steer
    assert text(await ws_turn(socket, CREATE)) == "echo hi"


async def test_a_notice_of_older_clients_is_ignored(socket: Socket) -> None:
    await socket.send_json({"type": "response.processed", "response_id": "resp_1"})
    assert text(await ws_turn(socket, CREATE)) == "echo hi"


async def test_pings_are_answered_while_a_turn_runs() -> None:
    async with (
        ScriptedUpstream([hang(["a long story"], after=2)]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses", autoping=False) as socket,
    ):
        await socket.send_json(CREATE)
        await upstream.until(lambda it: it.hanging)
        await socket.ping(b"there?")
        while (message := await socket.receive()).type is WSMsgType.TEXT:
            pass
        assert (message.type, message.data) == (WSMsgType.PONG, b"there?")
        upstream.release()
        assert (await ws_reply(socket)).response["status"] == "completed"


@pytest.mark.parametrize("how", ["close", "drop"])
async def test_a_client_that_leaves_stops_what_runs_and_drops_what_waits(how: str) -> None:
    async with (
        ScriptedUpstream([hang(["a long story"], after=2), "never asked"]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        await socket.send_json(CREATE)
        await socket.send_json(CREATE)
        await upstream.until(lambda it: it.hanging)
        if how == "close":
            await socket.close()
        else:
            socket._response.connection.transport.abort()
        await upstream.until(lambda it: it.disconnects == 1)
    assert len(upstream.requests) == 1


async def test_an_hour_is_told_when_the_socket_is_idle(upstream: ScriptedUpstream) -> None:
    async with (
        gateway_for(upstream.url, connection_limit_minutes=0.0005) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        error = await socket.receive_json()
        assert error["error"]["code"] == "websocket_connection_limit_reached"
        assert error["status"] == 400
        closed = await socket.receive()
        assert (closed.type, closed.data) == (WSMsgType.CLOSE, 1001)


async def test_a_turn_outlives_the_hour_and_a_new_one_does_not_begin() -> None:
    async with (
        ScriptedUpstream([hang(["a long story"], after=2)]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        await socket.send_json(CREATE)
        await upstream.until(lambda it: it.hanging)
        (connection,) = gateway.app[CONNECTIONS]
        await connection._expire(0)
        await socket.send_json(CREATE)
        refused = await ws_reply(socket)
        assert refused.error["code"] == "websocket_connection_limit_reached"
        upstream.release()
        assert (await ws_reply(socket)).response["status"] == "completed"
        assert (await socket.receive_json())["type"] == "error"
        assert (await socket.receive()).type is WSMsgType.CLOSE


async def test_the_gateway_leaves_idle_sockets_at_once_and_busy_ones_after_their_turn() -> None:
    async with (
        ScriptedUpstream([hang(["a long story"], after=2)]) as upstream,
        aiohttp.ClientSession() as session,
    ):
        async with gateway_for(upstream.url, shutdown_seconds=5) as gateway:
            idle = await connect(session, gateway)
            busy = await connect(session, gateway)
            await busy.send_json(CREATE)
            await upstream.until(lambda it: it.hanging)
            leaving = asyncio.ensure_future(gateway.__aexit__(None, None, None))
            assert (await idle.receive_json())["status"] == 503
            assert (await idle.receive()).data == 1012
            upstream.release()
            assert (await ws_reply(busy)).response["status"] == "completed"
            assert (await busy.receive_json())["status"] == 503
            assert (await busy.receive()).data == 1012
            await leaving
        await idle.close()
        await busy.close()


async def test_a_call_is_answered_over_the_socket(upstream: ScriptedUpstream) -> None:
    script = [Call("look", {"at": "sky"}), "blue"]
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    async with (
        ScriptedUpstream(script) as calling,
        gateway_for(calling.url) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        first = await ws_turn(socket, {**CREATE, "tools": [tool]})
        call = first.response["output"][0]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "it is"}
        second = await ws_turn(
            socket,
            {
                **CREATE,
                "tools": [tool],
                "input": [output],
                "previous_response_id": first.response["id"],
            },
        )
        assert text(second) == "blue"
        calling.check()


# --- lanes


async def lanes_until(socket: Socket, ends: int) -> dict[str | None, list[JSON]]:
    """All events by lane until so many lanes have come to an end."""
    lanes: dict[str | None, list[JSON]] = {}
    while ends:
        event = await socket.receive_json()
        lanes.setdefault(event.get("stream_id"), []).append(event)
        ends -= event["type"] in ("response.completed", "response.failed", "error")
    return lanes


async def test_lanes_run_side_by_side_and_each_event_names_its_own() -> None:
    def script(request: Any) -> Any:
        return hang(["slow"], after=2) if request.texts == ["slow"] else "quick"

    async with (
        ScriptedUpstream(script) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        await socket.send_json({**CREATE, "stream_id": "a", "input": "slow"})
        await upstream.until(lambda it: it.hanging)
        await socket.send_json({**CREATE, "stream_id": "b", "input": "b"})
        await socket.send_json({**CREATE, "input": "default"})
        lanes = await lanes_until(socket, 2)
        assert {lane: events[-1]["type"] for lane, events in lanes.items()} == {
            "a": lanes["a"][-1]["type"],
            "b": "response.completed",
            None: "response.completed",
        }
        assert lanes["a"][-1]["type"] != "response.completed"
        upstream.release()
        rest = await lanes_until(socket, 1)
        assert list(rest) == ["a"]
        sequence = [event["sequence_number"] for event in lanes["a"] + rest["a"]]
        assert sequence == list(range(len(sequence)))


async def test_a_lane_continues_its_own_response_and_can_fork_another_lanes(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    await socket.send_json({**CREATE, "stream_id": "a", "input": "one"})
    first = (await lanes_until(socket, 1))["a"][-1]["response"]
    await socket.send_json({**CREATE, "stream_id": "b", "previous_response_id": first["id"]})
    assert (await lanes_until(socket, 1))["b"][-1]["type"] == "response.completed"
    assert upstream.requests[-1].texts == ["one", "hi"]
    # A fork that fails leaves the parent where it is.
    bad = {**CREATE, "previous_response_id": first["id"], "stream_id": "c", "tools": [None]}
    await socket.send_json(bad)
    assert (await lanes_until(socket, 1))["c"][-1]["stream_id"] == "c"
    await socket.send_json({**CREATE, "stream_id": "a", "previous_response_id": first["id"]})
    assert (await lanes_until(socket, 1))["a"][-1]["type"] == "response.completed"


async def test_the_number_of_named_lanes_is_bounded(socket: Socket) -> None:
    for number in range(32):
        await socket.send_json({**CREATE, "stream_id": f"lane-{number}"})
    await lanes_until(socket, 32)
    await socket.send_json({**CREATE, "stream_id": "one-too-many"})
    error = await socket.receive_json()
    assert error["stream_id"] == "one-too-many"
    assert error["error"]["code"] == "websocket_stream_limit_reached"
    assert error["error"]["param"] == "stream_id"
    await socket.send_json({**CREATE, "stream_id": "lane-3"})
    assert (await lanes_until(socket, 1))["lane-3"][-1]["type"] == "response.completed"
    assert text(await ws_turn(socket, CREATE)) == "echo hi"


async def test_sixteen_turns_run_at_once_and_the_others_wait() -> None:
    async with (
        ScriptedUpstream(lambda request: hang(["slow"], after=1)) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        for number in range(20):
            await socket.send_json({**CREATE, "stream_id": str(number)})
        await upstream.until(lambda it: it.hanging == 16)
        assert len(upstream.requests) == 16
        upstream.release()
        lanes = await lanes_until(socket, 20)
        assert {events[-1]["type"] for events in lanes.values()} == {"response.completed"}
    assert len(upstream.requests) == 20


async def test_what_waits_on_a_socket_is_bounded() -> None:
    async with (
        ScriptedUpstream([hang(["slow"], after=1)]) as upstream,
        gateway_for(upstream.url, max_message_bytes=LIMIT) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        await socket.send_json(CREATE)
        await upstream.until(lambda it: it.hanging)
        for _ in range(5):
            await socket.send_json({**CREATE, "input": "x" * (LIMIT - 200)})
        reply = await ws_reply(socket)
        assert (reply.status, reply.error["code"]) == (429, "rate_limit_exceeded")
