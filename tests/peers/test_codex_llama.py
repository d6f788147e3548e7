"""The real Codex CLI in front of a real llama.cpp with a real (very small) model."""

import json
from pathlib import Path

import aiohttp
import pytest

from gateway.upstream.local import LocalModel
from tests.peers.codex import Codex
from tests.peers.gateway_process import GatewayProcess

# The fewest tools that Codex can be made to declare: a prompt of about 2,000 tokens instead of 5,400,
# which is a minute of prefill on busy cores.
FEW_TOOLS = [
    argument
    for feature in ("multi_agent", "goals", "view_image")
    for argument in ("--disable", feature)
]


# The small model sometimes goes round in circles until its answer is cut: Codex calls that a failed turn, rightly.
ATTEMPTS = 4


@pytest.mark.parametrize("websocket", [True, False], ids=["ws", "sse"])
async def test_a_text_turn_completes(tmp_path: Path, websocket: bool) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    async with LocalModel() as model, GatewayProcess(folder, "--upstream", model.url) as gateway:
        codex = Codex(
            tmp_path / "codex",
            gateway.url,
            websocket=websocket,
            model="plain",
            context_window=model.context_tokens,
            arguments=FEW_TOOLS,
        )
        for _ in range(ATTEMPTS):
            run = await codex.exec("Say hello.")
            if run.events[-1]["type"] == "turn.completed":
                break
            assert "max_output_tokens" in json.dumps(run.events)
    assert run.check().message.strip()
    usage = run.events[-1]["usage"]
    assert usage["input_tokens"] > 500
    assert usage["output_tokens"] > 0


async def test_the_template_renders_every_kind_of_message() -> None:
    """Asked of llama.cpp itself, since its own engine is what renders it."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "question"}]},
        {"role": "assistant", "content": "I look.", "tool_calls": [call, {**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "assistant", "content": "answer"},
        {"role": "system", "content": "Late."},
        {"role": "user", "content": "more"},
    ]
    schema = {"type": "object", "properties": {}}
    tools = [
        {"type": "function", "function": {"name": "f", "description": "", "parameters": schema}}
    ]
    async with LocalModel() as model, aiohttp.ClientSession() as session:
        url = model.url.removesuffix("/v1") + "/apply-template"
        async with session.post(url, json={"messages": messages, "tools": tools}) as answer:
            prompt = str((await answer.json())["prompt"])
    turns = prompt.split("<|im_start|>")[1:]
    assert [turn.split("\n")[0] for turn in turns] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert turns[0].startswith(
        "system\nBe brief.\n\nLate.\n\nYou may call these functions:\n<tools>\n{"
    )
    assert turns[2].count("<tool_call>\n") == 2
    assert '{"name": "f", "arguments": {"a": 1}}' in turns[2]
    assert turns[3].index("one") < turns[3].index("two")
    assert turns[3].count("<tool_response>") == 2
    assert turns[-1] == "assistant\n"


async def test_the_small_model_calls_a_tool_when_its_history_shows_how(tmp_path: Path) -> None:
    """A few rounds of the same call before, temperature 0: the call is the model's own."""
    history: list[dict[str, object]] = []
    for number, city in enumerate(["Paris", "London", "Rome", "Madrid", "Vienna"]):
        arguments = f'{{"city": "{city}"}}'
        history += [
            {"role": "user", "content": f"What is the weather in {city}?"},
            {
                "type": "function_call",
                "call_id": f"c{number}",
                "name": "get_weather",
                "arguments": arguments,
            },
            {"type": "function_call_output", "call_id": f"c{number}", "output": "sunny"},
            {"role": "assistant", "content": f"It is sunny in {city}."},
        ]
    tool = {
        "type": "function",
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    folder = tmp_path / "gateway"
    folder.mkdir()
    question = {"role": "user", "content": "What is the weather in Oslo?"}
    body = {"tools": [tool], "temperature": 0, "max_output_tokens": 60, "model": LocalModel.name}
    async with (
        LocalModel() as model,
        GatewayProcess(folder, "--upstream", model.url) as gateway,
        aiohttp.ClientSession() as session,
        session.post(
            f"{gateway.url}/responses", json={**body, "input": [*history, question]}
        ) as answer,
    ):
        response = await answer.json()
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert [(call["name"], call["arguments"]) for call in calls] == [
        ("get_weather", '{"city": "Oslo"}')
    ]
