"""The scripted upstream itself: says what it was told, and refuses what real servers refuse."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests import strict
from tests.scripted import Answer, Call, Raw, Reasoning, Refuse, ScriptedUpstream, break_off, hang

JSON = dict[str, Any]

FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
CHAT: JSON = {
    "model": "m",
    "stream": True,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "tool", "tool_call_id": "2", "content": ""},
        {"role": "user", "content": "go on"},
    ],
}
RESPONSES: JSON = {
    "model": "m",
    "stream": True,
    "instructions": "s",
    "tools": [{"type": "function", **FUNCTION, "strict": False}],
    "tool_choice": "auto",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "a"},
    ],
}


def change(body: JSON, path: str, value: Any) -> JSON:
    """A deep copy with `path` (a.0.b) set, or removed when `value` is ..."""
    copy: Any = json.loads(json.dumps(body))
    at = copy
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        at = at[step]
    if value is ...:
        del at[last]
    elif isinstance(at, list) and last == len(at):
        at.append(value)
    else:
        at[last] = value
    return copy  # type: ignore[no-any-return]  # json.loads of an object


@pytest.mark.parametrize(("body", "chat"), [(CHAT, True), (RESPONSES, False)])
def test_good_bodies_pass(body: JSON, chat: bool) -> None:
    strict.check_body(body, chat=chat)


CHAT_FAULTS: list[tuple[str, Any, str]] = [
    ("client_metadata", {}, "Unexpected fields"),
    ("include", [], "Unexpected fields"),
    ("store", False, "Unexpected fields"),
    ("generate", False, "Unexpected fields"),
    ("stream", ..., "stream must be sent"),
    ("tools", ..., "only allowed when 'tools'"),
    ("tools", [], "too short"),
    ("tools.0.type", "custom", "must be 'function'"),
    ("tools.0.function.name", "a.b", "name 'a.b'"),
    ("tools.0.function.name", "x" * 65, "name"),
    ("tools.0.function.defer_loading", True, "keys"),
    ("tools.0.function.parameters", {}, "no object schema"),
    ("tools.1", CHAT["tools"][0], "duplicate name"),
    ("tool_choice", {"type": "function", "function": {"name": "g"}}, "not among the tools"),
    ("tool_choice", {"type": "custom", "name": "f"}, "tool_choice type"),
    ("messages", [], "messages are empty"),
    ("messages.0.role", "developer", "developer"),
    ("messages.1", {"role": "system", "content": "x"}, "must be at the beginning"),
    ("messages.1.content", "", "content is empty"),
    ("messages.1.content", [], "content is empty"),
    ("messages.1.content.0.type", "input_text", "part type"),
    ("messages.2.content", "", "text content is empty"),
    ("messages.2.tool_calls", [], "tool_calls"),
    ("messages.2.tool_calls", ..., "neither content nor tool_calls"),
    ("messages.2.tool_calls.0.function.arguments", "[]", "no JSON object"),
    ("messages.2.tool_calls.0.function.arguments", "{", "Failed to parse"),
    ("messages.2.tool_calls.0.function.namespace", "n", "function keys"),
    ("messages.3.tool_call_id", "9", "no preceding"),
    ("messages.4.tool_call_id", "1", "no preceding (or no open)"),
    ("messages.4", ..., "insufficient tool messages"),
    ("messages.3.content", [{"type": "text", "text": "a"}], "must be a string"),
    ("messages.5", {"role": "tool", "tool_call_id": "1", "content": "b"}, "no open"),
]
RESPONSES_FAULTS: list[tuple[str, Any, str]] = [
    ("previous_response_id", "resp_1", "Unexpected fields"),
    ("generate", False, "Unexpected fields"),
    ("tools.0.type", "namespace", "must be 'function'"),
    ("tools.0.defer_loading", True, "keys"),
    ("tool_choice", {"type": "function", "name": "g"}, "not among the tools"),
    ("input", [], "input is empty"),
    ("input.0.type", "additional_tools", "unknown input item type"),
    ("input.0.role", "developer", "developer"),
    ("input.0.role", "system", "must be at the beginning"),
    ("input.0.content", "", "content is empty"),
    ("input.0.status", "completed", "keys"),
    ("input.2.namespace", "n", "keys"),
    ("input.2.arguments", "5", "no JSON object"),
    ("input.3.call_id", "9", "No tool call found"),
    ("input.3.output", [], "no string"),
    ("input.3", ..., "No tool output found"),
    ("input.4", RESPONSES["input"][3], "duplicate output"),
]
FAULTS = [(CHAT, True, *fault) for fault in CHAT_FAULTS]
FAULTS += [(RESPONSES, False, *fault) for fault in RESPONSES_FAULTS]


@pytest.mark.parametrize(("body", "chat", "path", "value", "words"), FAULTS)
def test_every_fault_is_refused(body: JSON, chat: bool, path: str, value: Any, words: str) -> None:
    with pytest.raises(strict.Refusal) as caught:
        strict.check_body(change(body, path, value), chat=chat)
    assert words in str(caught.value)


async def post(url: str, body: JSON) -> tuple[int, str]:
    path = "/chat/completions" if "messages" in body else "/responses"
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as response:
        return response.status, await response.text()


def events(text: str) -> list[JSON]:
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


PARTS: list[Any] = [
    Reasoning("hmm, let me see"),
    "a text of two pieces",
    Call("f", {"city": "Zürich"}),
]


@pytest.mark.parametrize("split", [0, 1])
async def test_chat_answers_stream_and_block(split: int) -> None:
    async with ScriptedUpstream([PARTS, PARTS], split=split) as upstream:
        options = {"stream_options": {"include_usage": True}}
        _, text = await post(upstream.url, {**CHAT, **options})
        _, whole = await post(upstream.url, {**CHAT, "stream": False})
        upstream.check()
    chunks = events(text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(d.get("content") or "" for d in deltas) == "a text of two pieces"
    assert "".join(d.get("reasoning_content", "") for d in deltas) == "hmm, let me see"
    calls = [c["function"] for d in deltas for c in d.get("tool_calls", [])]
    assert json.loads("".join(c["arguments"] for c in calls)) == {"city": "Zürich"}
    assert chunks[-1]["usage"]["total_tokens"] == 18
    assert text.endswith("data: [DONE]\n\n")
    message = json.loads(whole)["choices"][0]["message"]
    assert message["content"] == "a text of two pieces"
    assert message["tool_calls"][0]["function"]["name"] == "f"


async def test_responses_answers_stream_and_block() -> None:
    async with ScriptedUpstream([PARTS, PARTS]) as upstream:
        _, text = await post(upstream.url, RESPONSES)
        _, whole = await post(upstream.url, {**RESPONSES, "stream": False})
        upstream.check()
    stream = events(text)
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert stream[-1]["type"] == "response.completed"
    done = [event["item"] for event in stream if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]
    assert stream[-1]["response"]["output"] == done
    assert [item["type"] for item in json.loads(whole)["output"]] == [i["type"] for i in done]


async def test_an_answer_that_was_cut_is_incomplete() -> None:
    cut = Answer([Call("f", '{"city": "Zü')], finish="length")
    async with ScriptedUpstream([cut, cut]) as upstream:
        _, chat = await post(upstream.url, CHAT)
        _, responses = await post(upstream.url, RESPONSES)
    assert events(chat)[-1]["choices"][0]["finish_reason"] == "length"
    final = events(responses)[-1]
    assert final["type"] == "response.incomplete"
    assert final["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert final["response"]["output"][0]["status"] == "incomplete"


async def test_refuse_raw_and_an_exhausted_script() -> None:
    script = [Refuse(429, {"error": "slow down"}, (("Retry-After", "7"),)), Raw(b"data: x\n\n")]
    async with ScriptedUpstream(script) as upstream:
        assert await post(upstream.url, CHAT) == (429, '{"error": "slow down"}')
        assert await post(upstream.url, CHAT) == (200, "data: x\n\n")
        assert (await post(upstream.url, CHAT))[0] == 400
        with pytest.raises(AssertionError, match="no answer left"):
            upstream.check()


async def chunks() -> AsyncIterator[bytes]:
    yield json.dumps(CHAT).encode()


async def test_a_body_without_a_length_is_refused() -> None:
    async with ScriptedUpstream(["hello"]) as upstream:
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"{upstream.url}/chat/completions", data=chunks())
        assert answer.status == 400
        assert "no Content-Length" in upstream.refusals[0]
        with pytest.raises(AssertionError, match="no Content-Length"):
            upstream.check()


def test_a_compressed_body_is_refused() -> None:
    with pytest.raises(strict.Refusal, match="compressed"):
        strict.check_headers({"Content-Length": "9", "Content-Encoding": "zstd"})


async def test_a_hanging_answer_sees_its_client_leave() -> None:
    async with ScriptedUpstream([hang()]) as upstream:
        task = asyncio.create_task(post(upstream.url, CHAT))
        await upstream.until(lambda u: u.hanging)
        task.cancel()
        await upstream.until(lambda u: u.disconnects)
        assert upstream.disconnects == 1


async def test_a_hanging_answer_goes_on_when_released() -> None:
    async with ScriptedUpstream([hang(["some text"], after=2)]) as upstream:
        task = asyncio.create_task(post(upstream.url, CHAT))
        await upstream.until(lambda u: u.hanging)
        upstream.release()
        assert "[DONE]" in (await task)[1]


async def test_a_broken_answer_breaks() -> None:
    async with ScriptedUpstream([break_off(["some text"], after=2)]) as upstream:
        with pytest.raises(aiohttp.ClientError):
            await post(upstream.url, CHAT)
