"""Background responses: they outlive their client, are polled, followed, cancelled, and bounded."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.server import background
from gateway.server.keys import BACKGROUND
from tests.scripted import Refuse, ScriptedUpstream, hang
from tests.server.clients import ENDS, JSON, gateway_for, sse_frames
from tests.shared import check_response, check_stream

REQUEST: JSON = {"model": "scripted", "input": "hi", "background": True}


def run_of(gateway: Gateway) -> Any:
    """Its only run."""
    (run,) = gateway.app[BACKGROUND]._runs.values()
    return run


class Client:
    """Requests to one gateway."""

    def __init__(self, session: aiohttp.ClientSession, gateway: Gateway) -> None:
        self._session = session
        self._base = f"{gateway.url}/v1/responses"

    async def call(self, method: str, path: str = "", body: Any = None) -> tuple[int, Any]:
        async with self._session.request(method, f"{self._base}{path}", json=body) as answer:
            if answer.content_type == "text/event-stream":
                return answer.status, [event for _, event, _ in sse_frames(await answer.text())]
            return answer.status, await answer.json()

    async def ended(self, id: str) -> JSON:
        """Follow it to its end, and read it."""
        status, _ = await self.call("GET", f"/{id}?stream=true")
        assert status == 200
        return dict((await self.call("GET", f"/{id}"))[1])


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: hang(["a long story"], after=2)) as upstream:
        yield upstream


@pytest.fixture
async def gateway(upstream: ScriptedUpstream) -> AsyncIterator[Gateway]:
    async with gateway_for(upstream.url) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session, gateway)


async def test_a_run_is_queued_then_in_progress_then_completed(
    client: Client, upstream: ScriptedUpstream
) -> None:
    status, queued = await client.call("POST", body=REQUEST)
    assert (status, queued["status"], queued["background"]) == (200, "queued", True)
    check_response(queued, request=REQUEST)
    await upstream.until(lambda it: it.hanging)
    _, seen = await client.call("GET", f"/{queued['id']}")
    assert seen["status"] in ("queued", "in_progress")
    upstream.release()
    done = await client.ended(queued["id"])
    assert done["status"] == "completed"
    assert done["output"][0]["content"][0]["text"] == "a long story"
    check_response(done, request=REQUEST)


async def test_its_stream_begins_with_queued_and_can_be_taken_up_again(
    client: Client, upstream: ScriptedUpstream
) -> None:
    upstream.release()
    _, events = await client.call("POST", body={**REQUEST, "stream": True})
    check_stream(events, request={**REQUEST, "stream": True})
    assert [event["type"] for event in events[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert events[0]["response"]["status"] == "queued"
    assert events[2]["response"]["status"] == "in_progress"
    id = events[0]["response"]["id"]
    for after in (0, 3, len(events) - 1):
        _, rest = await client.call("GET", f"/{id}?stream=true&starting_after={after}")
        assert rest == events[after + 1 :]


async def test_it_survives_the_client_and_is_continued(
    client: Client, gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    async with aiohttp.ClientSession() as leaving:
        body = {**REQUEST, "stream": True}
        async with leaving.post(f"{gateway.url}/v1/responses", json=body) as answer:
            await answer.content.readline()
    upstream.release()
    id = run_of(gateway).turn.response["id"]
    assert (await client.ended(id))["status"] == "completed"
    assert upstream.disconnects == 0
    status, after = await client.call(
        "POST", body={"model": "scripted", "input": "on", "previous_response_id": id}
    )
    assert (status, after["status"]) == (200, "completed")
    assert upstream.requests[-1].texts == ["hi", "on"]


async def test_one_that_runs_cannot_be_continued(
    client: Client, upstream: ScriptedUpstream
) -> None:
    _, queued = await client.call("POST", body=REQUEST)
    body = {"model": "scripted", "input": "on", "previous_response_id": queued["id"]}
    status, error = await client.call("POST", body=body)
    assert (status, error["error"]["code"]) == (400, "previous_response_not_found")
    upstream.release()


async def test_cancel_ends_it_and_can_be_repeated(
    client: Client, upstream: ScriptedUpstream
) -> None:
    _, queued = await client.call("POST", body=REQUEST)
    await upstream.until(lambda it: it.hanging)
    for _ in range(2):
        status, cancelled = await client.call("POST", f"/{queued['id']}/cancel")
        assert (status, cancelled["status"]) == (200, "cancelled")
    await upstream.until(lambda it: it.disconnects == 1)
    assert (await client.call("GET", f"/{queued['id']}"))[1]["status"] == "cancelled"
    body = {"model": "scripted", "input": "on", "previous_response_id": queued["id"]}
    assert (await client.call("POST", body=body))[0] == 400


async def test_a_cancelled_one_is_stored_as_such(
    client: Client, gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    _, queued = await client.call("POST", body=REQUEST)
    await client.call("POST", f"/{queued['id']}/cancel")
    gateway.app[BACKGROUND]._runs.clear()
    assert (await client.call("GET", f"/{queued['id']}"))[1]["status"] == "cancelled"
    status, again = await client.call("POST", f"/{queued['id']}/cancel")
    assert (status, again["status"]) == (200, "cancelled")
    status, error = await client.call("GET", f"/{queued['id']}?stream=true")
    assert (status, error["error"]["param"]) == (400, "stream")


async def test_only_background_responses_are_cancelled_or_followed(
    client: Client, upstream: ScriptedUpstream
) -> None:
    upstream.release()
    _, plain = await client.call("POST", body={"model": "scripted", "input": "hi"})
    status, error = await client.call("POST", f"/{plain['id']}/cancel")
    assert (status, error["error"]["message"]) == (400, "Cannot cancel a synchronous response.")
    status, error = await client.call("GET", f"/{plain['id']}?stream=true")
    assert (status, error["error"]["param"]) == (400, "stream")
    for method, path in (("POST", "/resp_x/cancel"), ("GET", "/resp_x?stream=true")):
        status, error = await client.call(method, path)
        assert status == 404
        assert error["error"]["message"] == "Response with id 'resp_x' not found."


@pytest.mark.parametrize("value", ["x", "-1", "", "1.5", "9" * 40, "٣"])
async def test_starting_after_is_a_sequence_number(client: Client, value: str) -> None:
    status, error = await client.call("GET", f"/resp_x?stream=true&starting_after={value}")
    assert (status, error["error"]["param"]) == (400, "starting_after")


async def test_include_is_checked(client: Client, upstream: ScriptedUpstream) -> None:
    upstream.release()
    _, plain = await client.call("POST", body={"model": "scripted", "input": "hi"})
    path = (
        f"/{plain['id']}?include[]=reasoning.encrypted_content&include=message.output_text.logprobs"
    )
    assert (await client.call("GET", path)) == (200, plain)
    status, error = await client.call("GET", f"/{plain['id']}?include=everything")
    assert (status, error["error"]["param"]) == (400, "include")


async def test_it_must_be_stored(client: Client) -> None:
    status, error = await client.call("POST", body={**REQUEST, "store": False})
    assert (status, error["error"]["param"]) == (400, "store")


async def test_a_bad_request_is_a_status(client: Client) -> None:
    status, error = await client.call("POST", body={**REQUEST, "conversation": "conv_1"})
    assert (status, error["error"]["param"]) == (400, "conversation")
    assert "previous_response_id" in error["error"]["message"]


async def test_a_refusal_of_the_upstream_is_a_failed_response() -> None:
    refusal = Refuse(400, {"error": {"message": "maximum context length is 10 tokens"}})
    async with (
        ScriptedUpstream([refusal]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, gateway)
        _, events = await client.call("POST", body={**REQUEST, "stream": True})
        check_stream(events, request={**REQUEST, "stream": True})
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
        stored = await gateway.app[BACKGROUND]._store.get(events[-1]["response"]["id"], "")
        assert stored is not None
        assert stored.response["status"] == "failed"


async def test_delete_cancels_it(client: Client, upstream: ScriptedUpstream) -> None:
    _, queued = await client.call("POST", body=REQUEST)
    await upstream.until(lambda it: it.hanging)
    status, deleted = await client.call("DELETE", f"/{queued['id']}")
    assert (status, deleted["deleted"]) == (200, True)
    await upstream.until(lambda it: it.disconnects == 1)
    assert (await client.call("GET", f"/{queued['id']}"))[0] == 404


async def test_how_many_run_is_bounded(
    client: Client, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MAX_RUNS", 1)
    await client.call("POST", body=REQUEST)
    status, error = await client.call("POST", body=REQUEST)
    assert (status, error["error"]["code"]) == (429, "rate_limit_exceeded")
    upstream.release()


async def test_a_long_log_forgets_its_beginning(
    client: Client, gateway: Gateway, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MAX_LOG_BYTES", 4000)
    upstream.release()
    _, queued = await client.call("POST", body=REQUEST)
    id = queued["id"]
    await asyncio.wait({run_of(gateway).task})
    status, error = await client.call("GET", f"/{id}?stream=true")
    assert (status, error["error"]["param"]) == (400, "starting_after")
    _, events = await client.call("GET", f"/{id}?stream=true&starting_after=9")
    assert events[-1]["type"] in ENDS


async def test_the_logs_of_ended_runs_are_bounded(
    client: Client, gateway: Gateway, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MAX_ENDED_RUNS", 1)
    upstream.release()
    for _ in range(3):
        _, events = await client.call("POST", body={**REQUEST, "stream": True})
    assert len(gateway.app[BACKGROUND]._runs) == 1
    id = events[0]["response"]["id"]
    assert (await client.call("GET", f"/{id}?stream=true"))[1] == events


async def test_one_that_has_lost_its_process_is_a_failure(
    client: Client, gateway: Gateway, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, queued = await client.call("POST", body=REQUEST)
    runs = gateway.app[BACKGROUND]._runs
    run = runs.pop(queued["id"])
    path = f"/{queued['id']}"
    assert (await client.call("GET", path))[1]["status"] == "queued"
    assert (await client.call("POST", f"{path}/cancel"))[0] == 409
    monkeypatch.setattr("gateway.server.stored.MAX_RUN_SECONDS", -10)
    assert (await client.call("GET", path))[1]["status"] == "failed"
    runs[queued["id"]] = run
    upstream.release()


async def test_at_shutdown_it_may_end_and_is_a_failure_then() -> None:
    async with ScriptedUpstream(lambda request: hang(["slow"], after=1)) as upstream:
        async with (
            gateway_for(upstream.url, shutdown_seconds=0.05) as gateway,
            aiohttp.ClientSession() as session,
        ):
            client = Client(session, gateway)
            _, queued = await client.call("POST", body=REQUEST)
            await upstream.until(lambda it: it.hanging)
            run = gateway.app[BACKGROUND].find(queued["id"], "")
        assert run is not None
        assert run.response["status"] == "failed"
        last = [event async for event in run.follow(0)][-1]
        assert b"response.failed" in last
        assert "shut down" in run.response["error"]["message"]
