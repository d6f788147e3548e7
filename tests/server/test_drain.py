"""The end of a socket: an hour, a shutdown, and what is said and done about the turns that run."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType

from gateway.app import Gateway
from gateway.server.keys import CONNECTIONS
from tests.scripted import ScriptedUpstream, hang
from tests.server.clients import JSON, gateway_for, run_turn, ws_reply, ws_turn

CREATE: JSON = {"type": "response.create", "model": "scripted", "input": "hi", "store": False}


def connect(session: aiohttp.ClientSession, gateway: Gateway) -> Any:
    return session.ws_connect(f"{gateway.url}/v1/responses")


async def test_the_hour_has_its_exact_error_without_a_param_that_means_anything() -> None:
    async with (
        ScriptedUpstream(["hi"]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        await ws_turn(socket, CREATE)
        (connection,) = gateway.app[CONNECTIONS]
        connection.expire(60 * 60)
        frame = await socket.receive_json()
        assert frame == {
            "type": "error",
            "status": 400,
            "error": {
                "type": "invalid_request_error",
                "code": "websocket_connection_limit_reached",
                "message": "Responses websocket connection limit reached (60 minutes). "
                "Create a new websocket connection to continue.",
                "param": None,
            },
        }
        assert (await socket.receive()).data == 1001


async def test_at_shutdown_a_turn_that_runs_ends_and_a_new_one_is_refused() -> None:
    async with (
        ScriptedUpstream([hang(["a long story"], after=2)]) as upstream,
        gateway_for(upstream.url, shutdown_seconds=5) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        await socket.send_json(CREATE)
        await upstream.until(lambda it: it.hanging)
        leaving = asyncio.ensure_future(gateway.__aexit__(None, None, None))
        while (await socket.receive_json())["type"] != "response.output_text.delta":
            pass
        (connection,) = gateway.app[CONNECTIONS]
        while connection._refusal is None:
            await asyncio.wait({leaving}, timeout=0.01)
        await socket.send_json({**CREATE, "stream_id": "late"})
        refused = await ws_reply(socket)
        assert (refused.status, refused.error["message"]) == (503, "The gateway is shutting down.")
        upstream.release()
        assert (await ws_reply(socket)).response["status"] == "completed"
        assert (await socket.receive_json())["status"] == 503
        assert (await socket.receive()).data == 1012
        await leaving


async def test_a_turn_that_outlives_the_shutdown_is_cut_and_the_code_is_still_1012() -> None:
    async with (
        ScriptedUpstream([hang(["a long story"], after=2)]) as upstream,
        gateway_for(upstream.url, shutdown_seconds=0.1) as gateway,
        aiohttp.ClientSession() as session,
        connect(session, gateway) as socket,
    ):
        await socket.send_json(CREATE)
        await upstream.until(lambda it: it.hanging)
        leaving = asyncio.ensure_future(gateway.__aexit__(None, None, None))
        types = []
        while (message := await socket.receive()).type is WSMsgType.TEXT:
            types.append(message.json()["type"])
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1012)
        assert types[-1] == "error"
        assert "response.completed" not in types
        await upstream.until(lambda it: it.disconnects == 1)
        await leaving


@pytest.mark.parametrize("transport", ["json", "sse"])
async def test_http_turns_that_run_end_as_well(transport: str) -> None:
    async with (
        ScriptedUpstream(lambda request: hang(["a long story"], after=0)) as upstream,
        gateway_for(upstream.url, shutdown_seconds=5) as gateway,
    ):
        running = asyncio.ensure_future(
            run_turn(transport, gateway.url, {"model": "scripted", "input": "hi"})
        )
        await upstream.until(lambda it: it.hanging)
        leaving = asyncio.ensure_future(gateway.__aexit__(None, None, None))
        upstream.release()
        assert (await running).response["status"] == "completed"
        await leaving


async def test_a_request_on_its_way_at_shutdown_still_gets_its_answer() -> None:
    """Its client has opened the connection before; nothing tells it apart from an idle one."""
    body = {"model": "scripted", "input": "hi"}
    async with (
        ScriptedUpstream(["hello", "hello"]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
    ):
        url = f"{gateway.url}/v1/responses"
        async with session.post(url, json=body) as first:
            await first.read()
        leaving = asyncio.create_task(gateway.__aexit__(None, None, None))
        while gateway._runner.sites:
            await asyncio.wait({leaving}, timeout=0.001)
        async with session.post(url, json=body) as second:
            assert (await second.json())["status"] == "completed"
        await leaving
