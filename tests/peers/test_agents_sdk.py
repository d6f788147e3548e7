"""The OpenAI Agents SDK over WebSocket: it runs the tools itself and continues on one socket."""

from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    CustomTool,
    ModelSettings,
    function_tool,
    responses_websocket_session,
    set_tracing_disabled,
)

from tests.peers.front import gateway_before
from tests.scripted import Call, Received


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city} is sunny"


async def run_sql(context: Any, text: str) -> str:
    return f"rows of {text}"


SQL = CustomTool(name="run_sql", description="Runs SQL.", on_invoke_tool=run_sql)


def script(request: Received) -> Any:
    if not request.outputs:
        return [
            Call("get_weather", {"city": "Oslo"}),
            Call("run_sql", {"input": "SELECT 1;\nSELECT 2"}),
        ]
    return " and ".join(request.outputs)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_run_with_function_and_custom_tools(tmp_path: Path, api: str) -> None:
    set_tracing_disabled(True)
    settings = ModelSettings(store=False)
    agent: Agent[Any] = Agent("tester", tools=[get_weather, SQL], model_settings=settings)
    agent.model = "scripted"
    async with (
        gateway_before(tmp_path, script, api=api) as (gateway, upstream),
        responses_websocket_session(base_url=gateway.url, api_key="sk-test") as session,
    ):
        first = await session.run(agent, "weather and rows, please")
        streamed = session.run_streamed(
            agent, [*first.to_input_list(), {"role": "user", "content": "again"}]
        )
        events = [event.type async for event in streamed.stream_events()]
        assert len(upstream.requests) == 3
    assert first.final_output == "Oslo is sunny and rows of SELECT 1;\nSELECT 2"
    assert streamed.final_output == first.final_output
    assert "raw_response_event" in events
