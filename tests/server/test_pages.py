"""Web pages: names that were rebound to this machine, and other sites."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.scripted import ScriptedUpstream
from tests.server.clients import ws_turn
from tests.server.guarded import CREATE, call, guarded


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: "hello") as upstream:
        yield upstream


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:{port}", 200),
        ("127.1.2.3", 200),
        ("[::1]:{port}", 200),
        ("app.localhost:{port}", 200),
        ("box.example:{port}", 200),
        ("localhost.", 200),
        ("evil.example:{port}", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.0.7", 403),
        ("evil@localhost", 403),
        ("localhost:99999", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
async def test_a_name_that_was_rebound_to_this_machine_is_refused(
    upstream: ScriptedUpstream, host: str, status: int
) -> None:
    async with guarded(upstream, hosts=["box.example"]) as gateway:
        port = gateway.url.rpartition(":")[2]
        found, body, _ = await call(gateway, headers={"Host": host.format(port=port)})
        assert found == status, body
        if status == 403:
            assert body["error"]["code"] == "host_not_allowed"
            assert "access.hosts" in body["error"]["message"]


@pytest.mark.parametrize(
    ("origin", "is_fine"),
    [
        ("{url}", True),
        ("https://chat.example", True),
        ("https://CHAT.example/", True),
        ("http://chat.example", False),
        ("https://chat.example.evil", False),
        ("http://127.0.0.1", False),
        ("http://127.0.0.1:1", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        ("http://[", False),
    ],
)
async def test_a_page_of_another_site_drives_neither_posts_nor_sockets(
    upstream: ScriptedUpstream, origin: str, is_fine: bool
) -> None:
    async with (
        guarded(upstream, origins=["https://chat.example"]) as gateway,
        aiohttp.ClientSession() as session,
    ):
        headers = {"Origin": origin.format(url=gateway.url)}
        status, body, _ = await call(gateway, headers=headers)
        url = f"{gateway.url}/v1/responses"
        if is_fine:
            assert status == 200, body
            async with session.ws_connect(url, headers=headers) as socket:
                assert (await ws_turn(socket, CREATE)).text == "hello"
        else:
            assert (status, body["error"]["code"]) == (403, "origin_not_allowed")
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(url, headers=headers)
            assert refused.value.status == 403


async def test_a_form_of_another_site_is_refused_without_an_origin(
    upstream: ScriptedUpstream,
) -> None:
    async with guarded(upstream) as gateway:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
            assert (await call(gateway, headers={"Sec-Fetch-Site": site}))[0] == status
        link = {"Sec-Fetch-Site": "cross-site"}
        assert (await call(gateway, method="GET", path="/metrics", headers=link))[0] == 200
