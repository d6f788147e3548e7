"""The status page in a real Chromium: both themes, live turns, a restarted gateway, keys, a phone."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.app import Gateway
from gateway.config import AccessConfig, Config, ServerConfig, UpstreamConfig
from tests.peers.browser import Browser
from tests.scripted import Call, Refuse, ScriptedUpstream, hang
from tests.server.clients import JSON, run_turn

REQUEST: JSON = {
    "model": "scripted",
    "input": "what nobody else may read",
    "tools": [{"type": "custom", "name": "apply_patch", "description": "Patches."}],
}
SHOWS_ONE_TURN = "document.querySelectorAll('#past details').length === 1"
IS_LIVE = "document.getElementById('link').textContent === 'live'"
# Chromium's own line about a request that came to nothing; no script can keep it from that.
OF_THE_NETWORK = "Failed to load resource: net::ERR_CONNECTION_REFUSED"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with Browser() as browser:
        yield browser


@contextlib.asynccontextmanager
async def gateway_on(
    upstream: ScriptedUpstream, port: int = 0, keys_file: str = ""
) -> AsyncIterator[Gateway]:
    config = Config(
        server=ServerConfig(port=port, shutdown_seconds=0.5),
        upstream=UpstreamConfig(url=upstream.url, api="chat"),
        access=AccessConfig(keys_file=keys_file),
    )
    async with Gateway(config) as gateway:
        yield gateway


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_shows_a_turn_while_it_runs_and_after_it(browser: Browser, scheme: str) -> None:
    async with (
        ScriptedUpstream([hang([Call("apply_patch", {"input": "x"})], after=3)]) as upstream,
        gateway_on(upstream) as gateway,
    ):
        await browser.open(f"{gateway.url}/status", scheme=scheme)
        await browser.until("document.getElementById('now').textContent.includes('No turn runs')")
        turn = asyncio.create_task(run_turn("ws", gateway.url, REQUEST))
        await browser.until(
            "document.querySelector('.live')?.textContent.includes('writing') ?? false"
        )
        upstream.release()
        await turn
        await browser.until(SHOWS_ONE_TURN)
        text = await browser.evaluate("document.querySelector('#past details').textContent")
        light = await browser.evaluate("getComputedStyle(document.body).backgroundColor")
        page = await browser.evaluate("document.documentElement.outerHTML")
        said = await browser.said()
    assert "done" in text
    assert "apply_patch" in text
    assert "11 · 7" in text
    assert light == {"light": "rgb(245, 246, 248)", "dark": "rgb(17, 20, 26)"}[scheme]
    assert "nobody else may read" not in page
    assert said == []


async def test_it_survives_a_restart_of_the_gateway(browser: Browser) -> None:
    async with ScriptedUpstream(["one", "two"]) as upstream:
        async with gateway_on(upstream) as gateway:
            port = int(gateway.url.rpartition(":")[2])
            await browser.open(f"{gateway.url}/status")
            await run_turn("sse", gateway.url, REQUEST)
            await browser.until(SHOWS_ONE_TURN)
            assert await browser.said() == []
        await browser.until(
            "document.getElementById('link').textContent === 'gateway away, trying again'"
        )
        async with gateway_on(upstream, port) as gateway:
            await browser.until(IS_LIVE)
            await browser.until("document.querySelectorAll('#past details').length === 0")
            await run_turn("sse", gateway.url, REQUEST)
            await browser.until(SHOWS_ONE_TURN)
            said = await browser.said()
    assert set(said) <= {OF_THE_NETWORK}


async def test_a_failure_is_told_in_words_and_can_be_looked_for(browser: Browser) -> None:
    refusal = Refuse(401, {"error": {"message": "Incorrect API key provided: sk-planted-0001"}})
    async with ScriptedUpstream(["fine", refusal]) as upstream, gateway_on(upstream) as gateway:
        await browser.open(f"{gateway.url}/status")
        await run_turn("ws", gateway.url, REQUEST)
        await run_turn("ws", gateway.url, REQUEST)
        await browser.until("document.querySelectorAll('#past details').length === 2")
        await browser.do("click", selector="#problems")
        shown = "[...document.querySelectorAll('#past details')].filter((row) => !row.hidden)"
        assert await browser.evaluate(f"{shown}.length") == 1
        # Opened by the keyboard alone.
        await browser.evaluate(f"{shown}[0].querySelector('summary').focus()")
        await browser.do("press", key="Enter")
        text = await browser.evaluate(f"{shown}[0].open && {shown}[0].textContent")
        page = await browser.evaluate("document.documentElement.outerHTML")
        said = await browser.said()
    assert "The model server does not accept the gateway's key. (401)" in text
    assert "planted" not in page
    assert said == []


async def test_it_asks_for_the_key_once(browser: Browser, tmp_path: Path) -> None:
    key = "rgw_a-key-of-somebody"
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[somebody]\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n')
    keys.chmod(0o600)
    async with (
        ScriptedUpstream([]) as upstream,
        gateway_on(upstream, keys_file=str(keys)) as gateway,
    ):
        await browser.open(f"{gateway.url}/status")
        await browser.until("!document.getElementById('ask').hidden")
        assert await browser.said() == []
        await browser.do("fill", selector="#key", text="rgw_another-key")
        await browser.do("press", key="Enter")
        await browser.until(
            "document.getElementById('ask-why').textContent.includes('not accepted')"
        )
        assert await browser.evaluate("document.getElementById('all').hidden")
        await browser.do("fill", selector="#key", text=key)
        await browser.do("press", key="Enter")
        await browser.until(IS_LIVE)
        await browser.do("reload")
        await browser.until(IS_LIVE)
        assert await browser.evaluate("document.getElementById('ask').hidden")
        assert key not in await browser.evaluate("document.documentElement.outerHTML")


async def test_a_phone_need_not_scroll_sideways(browser: Browser) -> None:
    async with ScriptedUpstream(["a", "b"]) as upstream, gateway_on(upstream) as gateway:
        await browser.open(f"{gateway.url}/status", width=360, height=740)
        model = "a-model-with-a-name-that-is-longer-than-any-phone-is-wide-and-then-some-more"
        await run_turn("ws", gateway.url, {**REQUEST, "model": model})
        await browser.until(SHOWS_ONE_TURN)
        assert await browser.evaluate("document.documentElement.scrollWidth") == 360
        assert await browser.said() == []


async def test_the_policy_lets_nothing_else_run(browser: Browser) -> None:
    async with ScriptedUpstream([]) as upstream, gateway_on(upstream) as gateway:
        await browser.open(f"{gateway.url}/status")
        await browser.until(IS_LIVE)
        await browser.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), "
            "{ textContent: 'window.ran = true' }))"
        )
        assert await browser.evaluate("window.ran === undefined")
        assert "Content Security Policy" in "".join(await browser.said())
