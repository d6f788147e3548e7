"""The status page as it is served: its policy, its data, its door, and how the model server does."""

import base64
import hashlib
import re
from pathlib import Path

import aiohttp
import pytest

from gateway.server import upstream_health
from gateway.server.keyfile import add_key
from gateway.server.onlookers import ACTIVITY
from gateway.server.upstream_health import UpstreamHealth
from tests.scripted import Refuse, ScriptedUpstream
from tests.server.clients import JSON, gateway_for, run_turn
from tests.server.guarded import call, guarded

REQUEST: JSON = {"model": "scripted", "input": "hi"}


async def get(url: str) -> tuple[int, str, dict[str, str]]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text(), dict(answer.headers)


async def data(url: str, query: str = "") -> JSON:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/status.json{query}") as answer,
    ):
        assert answer.status == 200
        assert answer.headers["Cache-Control"] == "no-store"
        found: JSON = await answer.json()
        return found


async def test_the_policy_allows_the_page_and_nothing_else() -> None:
    async with ScriptedUpstream([]) as upstream, gateway_for(upstream.url) as gateway:
        status, page, headers = await get(f"{gateway.url}/status")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    for kind in ("script", "style"):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    # Nothing is loaded from anywhere, and nothing stands in an attribute that the policy would forbid.
    assert re.findall(r"""(?:src|href|action)=["'](?!data:)[^"']*""", page) == []
    assert re.findall(r"\s(?:style|on\w+)=", page) == []
    assert "https://" not in page


async def test_its_data() -> None:
    async with ScriptedUpstream(["one", "two"]) as upstream, gateway_for(upstream.url) as gateway:
        await run_turn("ws", gateway.url, REQUEST)
        first = await data(gateway.url)
        await run_turn("ws", gateway.url, REQUEST)
        known = f"?boot={first['boot']}&after={first['last']}"
        second = await data(gateway.url, known)
        third = await data(gateway.url, "?boot=another&after=1")
        odd = await data(gateway.url, f"?boot={first['boot']}&after=-1%00")
    assert [turn["order"] for turn in first["turns"]] == [1]
    assert [turn["order"] for turn in second["turns"]] == [2]
    assert len(third["turns"]) == len(odd["turns"]) == 2
    assert first["recording"] is None
    assert first["workers"] == 1
    upstream_shown = first["upstream"]
    assert upstream_shown["reachable"] is True
    assert (upstream_shown["dialect"], upstream_shown["profile"]) == ("chat", "default")
    assert upstream_shown["models"] == ["scripted"]
    assert upstream_shown["last_error"] is None


async def test_the_password_in_the_url_of_the_model_server_is_not_shown() -> None:
    async with ScriptedUpstream(["one"]) as upstream:
        url = upstream.url.replace("://", "://user:plantedPassword@")
        async with gateway_for(url) as gateway:
            await run_turn("sse", gateway.url, REQUEST)
            found = await data(gateway.url)
    assert found["upstream"]["url"] == upstream.url
    assert "planted" not in str(found)


async def test_a_key_opens_the_data_and_the_page_has_none(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    key = add_key(file, "somebody")
    async with ScriptedUpstream([]) as upstream, guarded(upstream, file) as gateway:
        status, page, _ = await get(f"{gateway.url}/status")
        refused = await call(gateway, method="GET", path="/status.json")
        opened = await call(gateway, key, method="GET", path="/status.json")
    assert status == 200
    assert '<html data-key="asked" lang' in page
    assert refused[0] == 401
    assert opened[0] == 200


async def test_without_keys_the_page_asks_for_none() -> None:
    async with ScriptedUpstream([]) as upstream, gateway_for(upstream.url) as gateway:
        _, page, _ = await get(f"{gateway.url}/status")
    assert '<html lang="en">' in page


async def test_a_refusal_is_shown_and_the_server_counts_as_there() -> None:
    script = [Refuse(429, {"error": {"message": "sk-planted-0001"}})]
    async with ScriptedUpstream(script) as upstream, gateway_for(upstream.url) as gateway:
        await run_turn("sse", gateway.url, REQUEST)
        found = await data(gateway.url)
    assert found["upstream"]["reachable"] is True
    error = found["upstream"]["last_error"]
    assert (error["words"], error["status"]) == ("Too many requests at the moment.", 429)


async def test_a_model_server_that_goes_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_health, "LOOK_SECONDS", 0.0)
    async with ScriptedUpstream(["one"]) as first:
        port = first.url.rpartition(":")[2].removesuffix("/v1")
        async with gateway_for(first.url) as gateway:
            await run_turn("sse", gateway.url, REQUEST)
            assert (await data(gateway.url))["upstream"]["reachable"] is True
            await first.__aexit__(None, None, None)
            reply = await run_turn("sse", gateway.url, REQUEST)
            assert reply.error["code"] == "upstream_unreachable"
            health = gateway.app[ACTIVITY].health
            assert health.is_answering is False
            gone_since = health.since
            async with ScriptedUpstream([], port=int(port)):
                # Nobody asks the model server for anything: looking at the page is enough.
                while not (await data(gateway.url))["upstream"]["reachable"]:
                    pass
            assert health.since > gone_since


async def test_it_is_asked_only_when_that_is_due() -> None:
    asked = 0

    async def ask() -> bool:
        nonlocal asked
        asked += 1
        return False

    health = UpstreamHealth(ask)
    assert health.shown()["reachable"] is None
    for _ in range(3):
        health.look()
    assert health._looking is not None
    await health._looking
    health.look()
    assert (asked, health.is_answering) == (1, False)
    health.answered()
    health.look()
    assert asked == 1
    await health.close()
