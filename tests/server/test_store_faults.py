"""What the store's troubles mean for clients, for whoever watches, and at the start."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from gateway.app import Gateway
from gateway.cli import main
from gateway.config import Config, ServerConfig, StoreConfig, UpstreamConfig
from tests.scripted import ScriptedUpstream
from tests.server.clients import JSON, TRANSPORTS, run_turn

REQUEST: JSON = {"model": "scripted", "input": "a secret of mine"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the store lies."""
    return tmp_path / "state"


@pytest.fixture
async def gateway(folder: Path) -> AsyncIterator[Gateway]:
    async with (
        ScriptedUpstream(lambda request: "the answer") as upstream,
        stored_in(folder, upstream.url) as gateway,
    ):
        yield gateway


@contextlib.asynccontextmanager
async def stored_in(folder: Path, upstream: str) -> AsyncIterator[Gateway]:
    config = Config(
        server=ServerConfig(port=0, shutdown_seconds=0.5),
        upstream=UpstreamConfig(url=upstream, api="chat"),
        store=StoreConfig(url=f"sqlite:{folder}/responses.db"),
    )
    async with Gateway(config) as gateway:
        yield gateway


@contextlib.contextmanager
def taken_away(folder: Path) -> AsyncIterator[None]:
    """The disk with the store is gone for a while."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    yield
    aside.rename(folder)


async def get(gateway: Gateway, path: str) -> tuple[int, JSON, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{gateway.url}{path}") as answer,
    ):
        return answer.status, await answer.json(), dict(answer.headers)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_answer_that_cannot_be_stored_is_delivered_and_says_so(
    gateway: Gateway, folder: Path, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = await run_turn(transport, gateway.url, REQUEST)
    assert before.response["store"] is True
    with taken_away(folder):
        reply = await run_turn(transport, gateway.url, REQUEST)
        assert (reply.text, reply.response["status"]) == ("the answer", "completed")
        assert reply.response["store"] is False
        assert f"response {reply.response['id']} is not stored" in caplog.text
        assert (await get(gateway, "/readyz"))[0] == 503
        assert (await get(gateway, "/healthz"))[0] == 200
    assert (await get(gateway, "/readyz"))[0] == 200
    lost = {**REQUEST, "previous_response_id": reply.response["id"]}
    assert (await run_turn(transport, gateway.url, lost)).error["code"] == (
        "previous_response_not_found"
    )
    kept = {**REQUEST, "previous_response_id": before.response["id"]}
    assert (await run_turn(transport, gateway.url, kept)).response["store"] is True


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_store_that_cannot_be_read_is_no_unknown_id(
    gateway: Gateway, folder: Path, transport: str
) -> None:
    made = (await run_turn(transport, gateway.url, REQUEST)).response
    with taken_away(folder):
        follow = {**REQUEST, "previous_response_id": made["id"]}
        reply = await run_turn(transport, gateway.url, follow)
        assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
        assert str(folder) not in str(reply)
        status, body, headers = await get(gateway, f"/v1/responses/{made['id']}")
        assert (status, body["error"]["code"]) == (503, "store_unavailable")
        assert headers["Retry-After"] == "5"
    assert (await run_turn(transport, gateway.url, follow)).text == "the answer"


async def test_the_store_is_red_until_a_write_works_again(gateway: Gateway, folder: Path) -> None:
    with taken_away(folder):
        await run_turn("json", gateway.url, REQUEST)
    assert (await run_turn("json", gateway.url, REQUEST)).response["store"] is True
    assert (await get(gateway, "/readyz"))[0] == 200


async def test_what_is_not_to_be_stored_never_touches_the_disk(
    gateway: Gateway, folder: Path
) -> None:
    for transport in TRANSPORTS:
        await run_turn(transport, gateway.url, {**REQUEST, "store": False})
    with contextlib.closing(sqlite3.connect(folder / "responses.db")) as db:
        assert db.execute("SELECT count(*) FROM responses").fetchone() == (0,)


async def test_a_restart_forgets_nothing(folder: Path) -> None:
    async with ScriptedUpstream(lambda request: "the answer") as upstream:
        async with stored_in(folder, upstream.url) as gateway:
            made = (await run_turn("json", gateway.url, REQUEST)).response
        async with stored_in(folder, upstream.url) as gateway:
            assert (await get(gateway, f"/v1/responses/{made['id']}"))[1] == made
            follow = {**REQUEST, "input": "more", "previous_response_id": made["id"]}
            await run_turn("json", gateway.url, follow)
    assert upstream.requests[-1].texts == ["a secret of mine", "more"]


async def test_two_gateways_on_one_file(folder: Path) -> None:
    async with (
        ScriptedUpstream(lambda request: "the answer") as upstream,
        stored_in(folder, upstream.url) as one,
        stored_in(folder, upstream.url) as two,
    ):
        latest: JSON = {}
        for gateway in (one, two, one, two):
            follow = {**REQUEST, "previous_response_id": latest.get("id")}
            latest = (await run_turn("sse", gateway.url, follow)).response
        assert len(upstream.requests[-1].body["messages"]) == 7


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no database at all, for certain" * 100, "damaged"), (None, "cannot be used")],
)
def test_a_store_that_cannot_be_used_ends_the_start(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "responses.db"
    if content is None:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "responses.db"
    else:
        path.write_bytes(content)
    for more in ([], ["--workers", "2"]):
        arguments = ["serve", "--port", "0", "--upstream", "http://127.0.0.1:9/v1", *more]
        result = CliRunner().invoke(main, [*arguments, "--store", f"sqlite:{path}"])
        assert result.exit_code == 2
        assert words in result.output
        assert result.output.startswith("responses-gateway: ")
        assert result.output.count("\n") == 1
