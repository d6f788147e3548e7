"""What can be continued, and by whom: only what the client has been given, only once it is there, only by its key."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.server.keys import CONNECTIONS, RELAY, STORE
from tests.scripted import Answer, Call, ScriptedUpstream, hang
from tests.server.clients import JSON, gateway_for, run_turn, ws_turn

CREATE: JSON = {"type": "response.create", "model": "scripted", "input": "hi", "store": False}
TOOL: JSON = {"type": "function", "name": "look", "parameters": {"type": "object"}}
Socket = aiohttp.ClientWebSocketResponse


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: f"echo {request.texts[-1]}") as upstream:
        yield upstream
        upstream.check()


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


async def test_store_false_never_touches_the_store(
    gateway: Gateway, socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> None:
        raise AssertionError("the store was asked")

    for name in ("put", "get", "chain", "whole"):
        monkeypatch.setattr(gateway.app[STORE], name, never)
    first = await ws_turn(socket, CREATE)
    await ws_turn(socket, {**CREATE, "previous_response_id": first.response["id"]})
    for transport in ("json", "sse"):
        body = {"model": "scripted", "input": "hi", "store": False}
        assert (await run_turn(transport, gateway.url, body)).response["store"] is False


async def test_a_stored_response_is_there_when_its_end_is(gateway: Gateway) -> None:
    for transport in ("json", "sse", "ws"):
        reply = await run_turn(transport, gateway.url, {"model": "scripted", "input": "hi"})
        row = await gateway.app[STORE].get(reply.response["id"], "")
        assert row is not None
        assert row.response == reply.response


async def test_an_older_id_of_a_socket_comes_from_the_store_or_not_at_all(socket: Socket) -> None:
    stored = await ws_turn(socket, {**CREATE, "store": True})
    fleeting = await ws_turn(socket, CREATE)
    await ws_turn(socket, CREATE)
    old = {**CREATE, "previous_response_id": stored.response["id"]}
    assert (await ws_turn(socket, old)).response["status"] == "completed"
    gone = await ws_turn(socket, {**CREATE, "previous_response_id": fleeting.response["id"]})
    assert gone.error["code"] == "previous_response_not_found"


async def test_a_lane_that_was_packed_goes_on_where_it_was(
    gateway: Gateway, socket: Socket, upstream: ScriptedUpstream
) -> None:
    first = await ws_turn(socket, {**CREATE, "input": "one – ½"})
    (connection,) = gateway.app[CONNECTIONS]
    connection._lanes[None].pack()
    again = {**CREATE, "input": "two", "previous_response_id": first.response["id"]}
    assert (await ws_turn(socket, again)).text == "echo two"
    assert upstream.requests[-1].texts == ["one – ½", "two"]


async def test_instructions_and_tools_are_not_inherited(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    first = await ws_turn(socket, {**CREATE, "instructions": "Be kind.", "tools": [TOOL]})
    await ws_turn(socket, {**CREATE, "previous_response_id": first.response["id"]})
    last = upstream.requests[-1]
    assert "tools" not in last.body
    assert [entry["role"] for entry in last.history] == ["user", "assistant", "user"]


async def test_no_previous_id_is_a_new_chain_on_the_same_lane(
    socket: Socket, upstream: ScriptedUpstream
) -> None:
    await ws_turn(socket, {**CREATE, "input": "one"})
    await ws_turn(socket, {**CREATE, "input": "two", "previous_response_id": None})
    assert upstream.requests[-1].texts == ["two"]


async def test_a_call_that_was_cut_is_not_continued_from() -> None:
    cut = Answer([Call("look", '{"at": "s')], finish="length")
    async with ScriptedUpstream([cut, "fine"]) as upstream, gateway_for(upstream.url) as gateway:
        body = {"model": "scripted", "input": "hi", "tools": [TOOL]}
        first = await run_turn("sse", gateway.url, body)
        assert first.response["status"] == "incomplete"
        again = {**body, "previous_response_id": first.response["id"]}
        assert (await run_turn("json", gateway.url, again)).response["status"] == "completed"
        assert upstream.requests[-1].calls == []
        upstream.check()


@pytest.mark.parametrize("store", [True, False])
async def test_a_turn_that_the_client_left_is_not_continued_from(store: bool) -> None:
    async with (
        ScriptedUpstream([hang(["a long story"], after=3)]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
    ):
        body = {"model": "scripted", "input": "hi", "stream": True, "store": store}
        async with session.post(f"{gateway.url}/v1/responses", json=body) as answer:
            await answer.content.readline()
            created = json.loads((await answer.content.readline()).removeprefix(b"data: "))
        await upstream.until(lambda it: it.disconnects)
        id = created["response"]["id"]
        async with session.get(f"{gateway.url}/v1/responses/{id}") as answer:
            assert answer.status == 404


@pytest.mark.parametrize("deleted", [0, 1, 2])
@pytest.mark.parametrize("by_another", [False, True])
async def test_what_was_deleted_is_continued_by_nobody(
    gateway: Gateway, deleted: int, by_another: bool
) -> None:
    """At once, though it is kept ready, and whichever gateway has deleted it."""
    body: JSON = {"model": "scripted", "input": "hi"}
    ids: list[str] = []
    for _ in range(3):
        reply = await run_turn(
            "sse", gateway.url, {**body, "previous_response_id": (ids or [None])[-1]}
        )
        ids.append(reply.response["id"])
    assert len(gateway.app[RELAY].parents) == 1
    if by_another:
        assert await gateway.app[STORE].delete(ids[deleted], "")
    else:
        async with (
            aiohttp.ClientSession() as session,
            session.delete(f"{gateway.url}/v1/responses/{ids[deleted]}") as answer,
        ):
            assert answer.status == 200
    for _ in range(2):
        reply = await run_turn("json", gateway.url, {**body, "previous_response_id": ids[-1]})
        assert reply.error["code"] == "previous_response_not_found"
    assert len(gateway.app[RELAY].parents) == 0


async def test_a_socket_keeps_what_it_continues_itself(gateway: Gateway, socket: Socket) -> None:
    await ws_turn(socket, {**CREATE, "store": True})
    assert len(gateway.app[RELAY].parents) == 0


async def test_responses_belong_to_their_key(gateway: Gateway) -> None:
    reply = await run_turn("json", gateway.url, {"model": "scripted", "input": "hi"})
    id, store = reply.response["id"], gateway.app[STORE]
    assert await store.get(id, "another") is None
    assert await store.chain(id, "another") == []
    assert not await store.delete(id, "another")
    assert await store.get(id, "") is not None
