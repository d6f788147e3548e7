"""What is counted, over real sockets: each number once, few labels, and all workers added up."""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.app import Gateway
from gateway.config import AccessConfig, Config, ServerConfig, UpstreamConfig
from gateway.errors import UpstreamError
from gateway.server.facts import TurnFacts
from gateway.server.keyfile import add_key
from gateway.server.keys import METRICS
from gateway.server.metered_store import MeteredStore
from gateway.server.metrics import MAX_CODES, Metrics
from gateway.store.memory import MemoryStore
from gateway.store.protocol import StoreError
from tests.scripted import Call, Refuse, ScriptedUpstream
from tests.server.clients import JSON, TRANSPORTS, gateway_for, run_turn, ws_turn
from tests.server.test_cli import started

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"
CREATE: JSON = {"model": "scripted", "input": "hi"}
SEARCH: JSON = {
    "type": "tool_search",
    "execution": "client",
    "description": "Find tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}
WEATHER: JSON = {
    "type": "function",
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {}},
    "defer_loading": True,
}

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def samples(text: str) -> Samples:
    """name -> labels -> value."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = tuple(sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[key] = sample.value
    return found


async def scrape(url: str, **headers: str) -> Samples:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics", headers=headers) as answer,
    ):
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        return samples(await answer.text())


def value(found: Samples, name: str, **labels: str) -> float:
    """The sum over all series with these labels."""
    wanted = set(labels.items())
    return sum(v for key, v in found.get(name, {}).items() if wanted <= set(key))


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_turn_is_counted_once_with_its_tokens_and_times(transport: str) -> None:
    async with ScriptedUpstream(["hello"]) as upstream, gateway_for(upstream.url) as gateway:
        reply = await run_turn(transport, gateway.url, CREATE)
        found = await scrape(gateway.url)
    host = upstream.url.split("/")[2]
    labels = {"transport": transport, "outcome": "completed", "upstream": host}
    assert value(found, "gateway_turns_total") == value(found, "gateway_turns_total", **labels) == 1
    usage = reply.response["usage"]
    assert value(found, "gateway_tokens_total", kind="input") == usage["input_tokens"] > 0
    assert value(found, "gateway_tokens_total", kind="output") == usage["output_tokens"] > 0
    assert value(found, "gateway_first_event_seconds_count", transport=transport) == 1
    assert value(found, "gateway_turn_seconds_count", transport=transport) == 1
    first = value(found, "gateway_first_event_seconds_sum")
    assert 0 < first <= value(found, "gateway_turn_seconds_sum")
    assert value(found, "gateway_store_seconds_count", operation="put") == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_upstreams_error_is_counted_by_its_code(transport: str) -> None:
    refusal = Refuse(429, {"error": {"message": "slow", "code": "rate_limit_exceeded"}})
    async with ScriptedUpstream([refusal]) as upstream, gateway_for(upstream.url) as gateway:
        assert (await run_turn(transport, gateway.url, CREATE)).status == 429
        found = await scrape(gateway.url)
    assert value(found, "gateway_turns_total", outcome="failed") == 1
    assert value(found, "gateway_upstream_errors_total", code="rate_limit_exceeded") == 1
    assert value(found, "gateway_first_event_seconds_count") == 0


async def test_open_sockets_and_their_lanes() -> None:
    async with (
        ScriptedUpstream(lambda request: "hello") as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
    ):
        async with session.ws_connect(f"{gateway.url}/v1/responses") as socket:
            await ws_turn(socket, CREATE)
            await ws_turn(socket, {**CREATE, "stream_id": "b"})
            found = await scrape(gateway.url)
            assert value(found, "gateway_open_sockets") == 1
            assert value(found, "gateway_open_lanes") == 2
        # The gateway has closed its side when the next turn on a fresh connection is over.
        await run_turn("json", gateway.url, CREATE)
        assert value(await scrape(gateway.url), "gateway_open_sockets") == 0


async def test_custom_calls_by_verdict_and_promoted_tools() -> None:
    tool = {
        "type": "custom",
        "name": "shout",
        "description": "Shouts.",
        "format": {"type": "grammar", "syntax": "regex", "definition": "[A-Z]+"},
    }
    script = [Call("shout", {"input": "LOUD"}), Call("shout", {"input": "quiet"}), "done"]
    async with ScriptedUpstream(script) as upstream, gateway_for(upstream.url) as gateway:
        for _ in range(2):
            await run_turn("sse", gateway.url, {**CREATE, "tools": [tool]})
        call = {"call_id": "c1", "execution": "client", "status": "completed"}
        items = [
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "tool_search_call", "arguments": {"query": "w"}, **call},
            {"type": "tool_search_output", "tools": [WEATHER], **call},
        ]
        await run_turn("sse", gateway.url, {**CREATE, "tools": [SEARCH], "input": items})
        found = await scrape(gateway.url)
        upstream.check()
    assert value(found, "gateway_custom_calls_total", verdict="valid") == 1
    assert value(found, "gateway_custom_calls_total", verdict="invalid") == 1
    assert value(found, "gateway_promoted_tools_total") == 1


async def test_what_is_refused_at_the_door_is_counted_by_its_reason(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.toml", "alice")
    async with ScriptedUpstream([]) as upstream, locked(upstream.url, tmp_path) as gateway:
        async with aiohttp.ClientSession() as session:
            for headers in ({}, bearer("wrong"), {**bearer(key), "Origin": "http://evil"}):
                async with session.get(f"{gateway.url}/v1/models", headers=headers) as answer:
                    assert answer.status in (401, 403)
        found = await scrape(gateway.url, **bearer(key))
    for reason in ("no_api_key", "invalid_api_key", "origin_not_allowed"):
        assert value(found, "gateway_refusals_total", reason=reason) == 1


@contextlib.asynccontextmanager
async def locked(url: str, folder: Path) -> AsyncIterator[Gateway]:
    config = Config(
        server=ServerConfig(port=0, shutdown_seconds=0.5),
        upstream=UpstreamConfig(url=url, api="chat"),
        access=AccessConfig(keys_file=str(folder / "keys.toml")),
    )
    async with Gateway(config) as gateway:
        yield gateway


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_the_store_is_timed_and_its_failures_are_counted() -> None:
    class Broken(MemoryStore):
        async def check(self) -> None:
            raise StoreError("The disk is full.")

    metrics = Metrics()
    store = MeteredStore(Broken(), metrics)
    assert await store.get("resp_1", "") is None
    with pytest.raises(StoreError):
        await store.check()
    found = samples(metrics.page("")[0].decode())
    assert value(found, "gateway_store_seconds_count", operation="get") == 1
    assert value(found, "gateway_store_failures_total", operation="get") == 0
    assert value(found, "gateway_store_failures_total", operation="check") == 1


def test_no_model_server_makes_series_without_bound() -> None:
    metrics = Metrics()
    for number in range(10 * MAX_CODES):
        metrics.count_turn(failed(UpstreamError("no", code=f"code_{number}" * 100)))
    found = samples(metrics.page("")[0].decode())["gateway_upstream_errors_total"]
    assert len(found) == MAX_CODES + 1
    assert sum(found.values()) == 10 * MAX_CODES
    assert all(len(text) <= 64 for labels in found for _, text in labels)


def test_an_unknown_verdict_is_other() -> None:
    metrics = Metrics()
    metrics.count_verdicts(["valid", "a new one", "another"])
    found = samples(metrics.page("")[0].decode())
    assert value(found, "gateway_custom_calls_total", verdict="valid") == 1
    assert value(found, "gateway_custom_calls_total", verdict="other") == 2


def failed(error: UpstreamError) -> TurnFacts:
    return TurnFacts(
        transport="sse",
        outcome="failed",
        upstream="h:1",
        response_id="resp_1",
        model="m",
        seconds=1.0,
        error=error,
    )


async def test_the_loops_lag_is_measured_as_long_as_the_gateway_runs() -> None:
    async with ScriptedUpstream([]) as upstream, gateway_for(upstream.url) as gateway:
        page = gateway.app[METRICS].page("")[0].decode()
        assert "gateway_event_loop_lag_seconds_bucket" in page
        assert "process_resident_memory_bytes" in page


async def test_scrapers_of_openmetrics_get_that() -> None:
    async with (
        ScriptedUpstream([]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        session.get(
            f"{gateway.url}/metrics", headers={"Accept": "application/openmetrics-text"}
        ) as answer,
    ):
        assert answer.content_type == "application/openmetrics-text"
        assert (await answer.text()).endswith("# EOF\n")


async def test_every_worker_answers_for_all() -> None:
    count = 12
    async with (
        ScriptedUpstream(lambda request: "hello") as upstream,
        started("--upstream", upstream.url, "--workers", "2") as (_, url, _),
    ):
        for _ in range(count):
            await run_turn("json", url, CREATE)
        for _ in range(4):
            found = await scrape(url)
            assert value(found, "gateway_turns_total") == count
            assert value(found, "gateway_turn_seconds_count") == count


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    board = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    metrics = Metrics()
    known = {family.name for family in metrics._registry.collect()}
    asked: set[Any] = set()
    for query in queries:
        for name in re.findall(r"\bgateway_\w+", query):
            asked.add(re.sub(r"_(total|bucket|sum|count)$", "", name))
    assert asked <= known
    own = {name for name in known if name.startswith("gateway_")}
    assert own - asked == set(), "a metric that no panel shows"
