"""The OpenAI SDK: its own parser and types accept every stream, blocking, SSE and WebSocket."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.peers.front import gateway_before
from tests.scripted import Call, Reasoning, Received, ScriptedUpstream
from tests.shared import check_response, check_stream

JSON = dict[str, Any]

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
SQL: Any = {
    "type": "custom",
    "name": "run_sql",
    "description": "Runs one SQL statement.",
    "format": {"type": "grammar", "syntax": "regex", "definition": "SELECT .*"},
}
TOOLS: Any = [WEATHER, SQL]
QUERY = "SELECT \"name\" FROM cities WHERE name = 'Zürich'"


def script(request: Received) -> Any:
    """Two calls, then a text about their outputs."""
    if request.outputs:
        return "; ".join(request.outputs)
    return [
        Reasoning("Both tools are needed."),
        "Let me look.",
        Call("get_weather", {"city": "Zürich"}),
        Call("run_sql", {"input": QUERY}),
    ]


def outputs_for(items: Any) -> list[Any]:
    """What the client's tools answer."""
    kinds = {
        "function_call": "function_call_output",
        "custom_tool_call": "custom_tool_call_output",
    }
    return [
        {"type": kinds[item.type], "call_id": item.call_id, "output": f"{item.name}: done"}
        for item in items
        if item.type in kinds
    ]


@pytest.fixture(params=["chat", "responses"])
async def row(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[AsyncOpenAI, ScriptedUpstream]]:
    async with (
        gateway_before(tmp_path, script, api=request.param) as (gateway, upstream),
        AsyncOpenAI(base_url=gateway.url, api_key="sk-test", max_retries=0) as client,
    ):
        yield client, upstream


def check_calls(response: Any) -> None:
    kinds = [item.type for item in response.output]
    assert kinds == ["reasoning", "message", "function_call", "custom_tool_call"]
    assert response.output_text == "Let me look."
    assert json.loads(response.output[2].arguments) == {"city": "Zürich"}
    assert response.output[3].input == QUERY


async def test_create(row: tuple[AsyncOpenAI, ScriptedUpstream]) -> None:
    client, upstream = row
    request: Any = {"model": "scripted", "input": "weather?", "tools": TOOLS}
    first = await client.responses.create(**request)
    check_calls(first)
    check_response(first.to_dict(mode="json"), request=request)
    second = await client.responses.create(
        model="scripted",
        previous_response_id=first.id,
        input=outputs_for(first.output),
        tools=TOOLS,
    )
    assert second.output_text == "get_weather: done; run_sql: done"
    assert second.usage is not None
    assert second.usage.total_tokens == 18
    assert json.loads(upstream.requests[-1].calls[1][1]) == {"input": QUERY}


async def test_stream(row: tuple[AsyncOpenAI, ScriptedUpstream]) -> None:
    client, _ = row
    request: Any = {"model": "scripted", "input": "weather?", "tools": TOOLS}
    raw = await client.responses.create(**request, stream=True)
    check_stream([event.to_dict(mode="json") async for event in raw], request=request)
    async with client.responses.stream(**request) as stream:
        events = [event async for event in stream]
        check_calls(await stream.get_final_response())
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == "Let me look."
    deltas = [e.delta for e in events if e.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == QUERY
    assert len(deltas) > 1


async def receive(connection: Any, frames: list[Any]) -> Any:
    async for event in connection:
        frames.append(("s2c", event.to_dict(mode="json")))
        assert event.type != "error", event
        if event.type in ("response.completed", "response.failed", "response.incomplete"):
            return event.response
    raise AssertionError("the socket was closed before the end")


async def test_websocket(row: tuple[AsyncOpenAI, ScriptedUpstream]) -> None:
    client, upstream = row
    frames: list[Any] = []
    async with client.responses.connect() as connection:

        async def create(**request: Any) -> Any:
            frames.append(("c2s", {"type": "response.create", **request}))
            await connection.response.create(**request)
            return await receive(connection, frames)

        warm = await create(
            model="scripted", input="weather?", tools=TOOLS, store=False, generate=False
        )
        assert not upstream.requests
        first = await create(
            model="scripted", previous_response_id=warm.id, input=[], tools=TOOLS, store=False
        )
        check_calls(first)
        second = await create(
            model="scripted",
            previous_response_id=first.id,
            input=outputs_for(first.output),
            tools=TOOLS,
            store=False,
        )
    assert second.output_text == "get_weather: done; run_sql: done"
    assert upstream.requests[-1].texts == ["weather?"]
    check_stream(frames, transport="ws")
