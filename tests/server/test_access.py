"""Who comes in, as whom, and how much at once."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import aiohttp
import pytest

from gateway.server.keyfile import RELOAD_SECONDS, add_key, hash_key, read_keys
from gateway.server.keys import ACCESS
from tests.scripted import ScriptedUpstream, hang
from tests.server.clients import ws_turn
from tests.server.guarded import CREATE, call, edit, guarded


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: "hello") as upstream:
        yield upstream


async def test_without_keys_everybody_on_this_machine_is_served(upstream: ScriptedUpstream) -> None:
    async with guarded(upstream) as gateway:
        status, body, _ = await call(gateway)
    assert (status, body["status"]) == (200, "completed")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/responses"),
        ("GET", "/v1/models"),
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/metrics"),
        ("GET", "/readyz"),
        ("GET", "/no/such/path"),
    ],
)
async def test_everything_but_the_health_of_the_process_asks_for_a_key(
    upstream: ScriptedUpstream, keys_file: Path, method: str, path: str
) -> None:
    key = add_key(keys_file, "alice")
    async with guarded(upstream, keys_file) as gateway:
        status, body, headers = await call(gateway, method=method, path=path)
        assert status == 401
        assert body["error"]["message"].startswith("You didn't provide an API key.")
        assert body["error"]["type"] == "invalid_request_error"
        assert "WWW-Authenticate" in headers
        assert (await call(gateway, key, method=method, path=path))[0] != 401
        assert (await call(gateway, method="GET", path="/healthz"))[0] == 200


async def test_a_wrong_key_is_refused_and_not_repeated(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    async with guarded(upstream, keys_file) as gateway:
        for wrong in (key[:-1], key + "x", key.upper(), hash_key(key), "rgw_", "ü"):
            status, body, _ = await call(gateway, headers={"Authorization": f"Bearer {wrong}"})
            assert (status, body["error"]["code"]) == (401, "invalid_api_key")
            assert wrong not in body["error"]["message"]
        # Not out of a URL: those stand in logs.
        status, _, _ = await call(gateway, path=f"/v1/responses?api_key={key}")
        assert status == 401
    assert upstream.requests == []


async def test_a_socket_asks_for_a_key_before_it_opens(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    async with guarded(upstream, keys_file) as gateway, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{gateway.url}/v1/responses")
        assert refused.value.status == 401
        async with session.ws_connect(
            f"{gateway.url}/v1/responses", headers={"Authorization": f"Bearer {key}"}
        ) as socket:
            assert (await ws_turn(socket, CREATE)).text == "hello"


async def test_a_browser_may_give_the_key_as_a_password_where_people_look(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    basic = {"Authorization": "Basic " + base64.b64encode(f"anyone:{key}".encode()).decode()}
    async with guarded(upstream, keys_file) as gateway:
        assert (await call(gateway, method="GET", path="/metrics", headers=basic))[0] == 200
        assert (await call(gateway, headers=basic))[0] == 401
        bad = {"Authorization": "Basic !"}
        assert (await call(gateway, method="GET", path="/metrics", headers=bad))[0] == 401


async def test_responses_belong_to_the_key_under_whatever_name(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    alice, bob = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    async with guarded(upstream, keys_file) as gateway:
        _, made, _ = await call(gateway, alice)
        path = f"/v1/responses/{made['id']}"
        assert (await call(gateway, alice, method="GET", path=path))[0] == 200
        assert (await call(gateway, bob, method="GET", path=path))[0] == 404
        status, body, _ = await call(
            gateway, bob, json={**CREATE, "previous_response_id": made["id"]}
        )
        assert (status, body["error"]["code"]) == (400, "previous_response_not_found")
    owner = read_keys(keys_file)["alice"].owner
    edit(keys_file, "[alice]", "[alice-old]")
    assert read_keys(keys_file)["alice-old"].owner == owner


async def test_an_expired_key_is_told_so(upstream: ScriptedUpstream, keys_file: Path) -> None:
    key = add_key(keys_file, "alice", date(2020, 1, 31))
    async with guarded(upstream, keys_file) as gateway:
        status, body, _ = await call(gateway, key)
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert "expired on 2020-01-31" in body["error"]["message"]


async def test_a_key_that_is_taken_out_ends_at_the_next_turn_of_its_open_socket(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key, other = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    async with guarded(upstream, keys_file) as gateway, aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {key}"}
        async with session.ws_connect(f"{gateway.url}/v1/responses", headers=headers) as socket:
            assert (await ws_turn(socket, CREATE)).text == "hello"
            edit(keys_file, hash_key(key), "0" * 64)
            keys = gateway.app[ACCESS]._keys
            assert keys is not None
            keys._looked_at -= RELOAD_SECONDS
            reply = await ws_turn(socket, CREATE, check=False)
        assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
        assert (await call(gateway, other))[0] == 200


# -- limits


async def test_turns_in_flight_are_bounded_for_one_key(keys_file: Path) -> None:
    alice, bob = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    edit(keys_file, hash_key(alice) + '"', hash_key(alice) + '"\nmax_turns = 1')
    async with (
        ScriptedUpstream([hang(["a long story"]), "bob's", "again"]) as upstream,
        guarded(upstream, keys_file) as gateway,
    ):
        running = asyncio.create_task(call(gateway, alice, json={**CREATE, "stream": True}))
        await upstream.until(lambda u: u.hanging)
        status, body, headers = await call(gateway, alice)
        assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
        assert body["error"]["type"] == "requests"
        assert "Limit 1, Used 1. Please try again in 2s." in body["error"]["message"]
        assert headers["Retry-After"] == "2"
        assert (await call(gateway, bob))[0] == 200
        upstream.release()
        assert (await running)[0] == 200
        assert (await call(gateway, alice))[0] == 200


async def test_open_sockets_are_bounded_for_one_key(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        guarded(upstream, keys_file, max_sockets=1) as gateway,
        aiohttp.ClientSession() as session,
    ):
        url = f"{gateway.url}/v1/responses"
        async with session.ws_connect(url, headers=headers):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(url, headers=headers)
            assert refused.value.status == 429
            assert refused.value.headers is not None
            assert refused.value.headers["Retry-After"] == "2"
            # A socket is no turn.
            assert (await call(gateway, key))[0] == 200
        async with session.ws_connect(url, headers=headers) as socket:
            assert (await ws_turn(socket, CREATE)).text == "hello"


async def test_the_size_of_a_body_is_bounded_for_one_key(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key, other = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    edit(keys_file, hash_key(key) + '"', hash_key(key) + '"\nmax_body_bytes = 1024')
    large = {**CREATE, "input": "x" * 1024}
    async with guarded(upstream, keys_file) as gateway, aiohttp.ClientSession() as session:
        status, body, _ = await call(gateway, key, json=large)
        assert (status, body["error"]["code"]) == (413, "request_too_large")
        assert (await call(gateway, other, json=large))[0] == 200
        headers = {"Authorization": f"Bearer {key}"}
        async with session.ws_connect(f"{gateway.url}/v1/responses", headers=headers) as socket:
            reply = await ws_turn(socket, large, check=False)
            assert (reply.status, reply.error["code"]) == (413, "request_too_large")
