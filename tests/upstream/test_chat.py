"""Bodies for /chat/completions: fields, tools and their order."""

import pytest

from gateway.errors import RequestError
from gateway.upstream.chat import ChatDialect
from gateway.upstream.chat_stream import ChatReader
from gateway.upstream.dialect import Dialect, Reader, make_dialect
from gateway.upstream.profiles import load_profile, profile_names
from gateway.upstream.responses import ResponsesDialect
from gateway.wire.json import loads
from tests.upstream.lowered_requests import call, encode, function, lowered, output, user

EVERYTHING = {
    "temperature": 0.5,
    "top_p": 0.9,
    "max_output_tokens": 100,
    "parallel_tool_calls": False,
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {"verbosity": "low", "format": {"type": "text"}},
    "top_logprobs": 2,
    "user": "u",
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "prompt_cache_key": "k",
    "truncation": "auto",
    "stop": ["x"],
    "seed": 1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
    "client_metadata": {"x": "y"},
    "include": ["reasoning.encrypted_content"],
    "store": True,
}


def chat(profile, request, **overrides):
    return encode(profile, request, dialect="chat", **overrides)


def test_a_dialect_is_made_by_its_profile():
    chat_dialect: Dialect = make_dialect(load_profile("vllm"))
    assert isinstance(chat_dialect, ChatDialect)
    assert chat_dialect.path == "/chat/completions"
    reader: Reader = chat_dialect.reader("text/event-stream")
    assert isinstance(reader, ChatReader)
    responses = make_dialect(load_profile("vllm", {"dialect": "responses"}))
    assert isinstance(responses, ResponsesDialect)


def test_q44_a_body_holds_only_what_the_profile_allows_in_a_fixed_order():
    body = chat("default", lowered(user("a"), tools=[function()], **EVERYTHING))
    assert list(body.items())[:-2] == [
        ("model", "m"),
        ("stream", True),
        ("stream_options", {"include_usage": True}),
        ("temperature", 0.5),
        ("top_p", 0.9),
        ("presence_penalty", 0.1),
        ("frequency_penalty", 0.2),
        ("stop", ["x"]),
        ("seed", 1),
        ("max_tokens", 100),
        ("tools", body["tools"]),
    ]
    assert list(body)[-2:] == ["parallel_tool_calls", "messages"]


def test_q44_openai_gets_everything_that_chat_has():
    body = chat("openai", lowered(user("a"), **EVERYTHING))
    assert body["reasoning_effort"] == "high"
    assert body["verbosity"] == "low"
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)
    assert body["max_completion_tokens"] == 100
    assert body["metadata"] == {"a": "b"}
    assert not body.keys() & {"store", "include", "truncation", "client_metadata", "max_tokens"}


# What transformers serve 5.24 was seen to take, or has in OpenAI's own request type.
TRANSFORMERS_TAKES = {
    *("model", "messages", "stream", "stream_options", "temperature", "max_tokens", "seed"),
    *("tools", "top_p", "stop", "presence_penalty", "frequency_penalty"),
}


def test_q44_transformers_refuses_unknown_fields():
    body = chat("transformers", lowered(user("a"), tools=[function()], **EVERYTHING))
    assert set(body) <= TRANSFORMERS_TAKES


@pytest.mark.parametrize("name", profile_names())
def test_q44_a_plain_request_is_plain_everywhere(name):
    body = chat(name, lowered(user("a")))
    assert set(body) <= {"model", "stream", "stream_options", "messages"}
    assert list(body)[-1] == "messages"


@pytest.mark.parametrize("stream", [True, False])
def test_stream_is_always_said(stream):
    body = chat("default", {**lowered(user("a")), "stream": stream})
    assert body["stream"] is stream
    assert ("stream_options" in body) is stream


def test_a_server_that_streams_no_calls_is_asked_for_a_whole_answer():
    body = chat("default", lowered(user("a")), stream=False)
    assert body["stream"] is False
    assert "stream_options" not in body


def test_usage_is_not_asked_for_where_the_field_is_unknown():
    assert "stream_options" not in chat("mistral", lowered(user("a")))


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("low", "low"),
        ("minimal", "low"),
        ("xhigh", "high"),
        ("max", "high"),
        ("none", None),
        ("curious", None),
        (None, None),
    ],
)
def test_an_effort_becomes_the_nearest_known_one(asked, sent):
    body = chat("vllm", lowered(user("a"), reasoning={"effort": asked}))
    assert body.get("reasoning_effort") == sent


def test_an_effort_is_left_out_where_none_is_known():
    body = chat("vllm", lowered(user("a"), reasoning={"effort": "low"}), efforts=["none"])
    assert "reasoning_effort" not in body
    openai = chat("openai", lowered(user("a"), reasoning={"effort": "none"}))
    assert openai["reasoning_effort"] == "none"


def test_an_output_format_is_nested_for_chat():
    flat = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    body = chat("default", lowered(user("a"), text={"format": {**flat, "description": None}}))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }
    body = chat("default", lowered(user("a"), text={"format": {"type": "json_object"}}))
    assert body["response_format"] == {"type": "json_object"}


def test_an_output_format_that_the_server_lacks_is_refused():
    with pytest.raises(RequestError) as raised:
        chat("deepseek", lowered(user("a"), text={"format": {"type": "json_schema"}}))
    assert raised.value.message == (
        "Output format 'json_schema' is not supported by this model server. "
        "Supported: text, json_object."
    )
    assert raised.value.param == "text.format.type"


def test_q54_functions_are_nested_and_strict_is_explicit():
    body = chat("default", lowered(user("a"), tools=[function("f"), function("g", strict=True)]))
    assert body["tools"][0] == {
        "type": "function",
        "function": {
            "name": "f",
            "description": "d",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    }
    assert body["tools"][1]["function"]["strict"] is True


def test_q55_a_named_choice_is_nested_for_chat():
    choice = {"type": "function", "name": "f"}
    body = chat("default", lowered(user("a"), tools=[function()], tool_choice=choice))
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    body = chat("default", lowered(user("a"), tools=[function()], tool_choice="required"))
    assert body["tool_choice"] == "required"


def test_q55_nothing_about_tools_is_said_when_there_are_none():
    request = lowered(user("a"), tools=[], tool_choice="auto", parallel_tool_calls=True)
    assert set(chat("vllm", request)) == {"model", "stream", "stream_options", "messages"}


def test_q55_none_shows_no_tools_to_a_server_that_ignores_it():
    request = lowered(user("a"), tools=[function()], tool_choice="none", parallel_tool_calls=True)
    assert not chat("mlx", request).keys() & {"tools", "tool_choice", "parallel_tool_calls"}


def test_q56_parallel_tool_calls_is_only_said_to_servers_that_know_it():
    request = lowered(user("a"), tools=[function()], parallel_tool_calls=False)
    assert chat("vllm", request)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in chat("ollama", request)
    assert "parallel_tool_calls" not in chat("vllm", lowered(user("a"), tools=[function()]))


def test_q57_a_body_is_whole_bytes_of_json():
    body = make_dialect(load_profile("mlx")).encode(lowered(user("ü\n")))
    assert isinstance(body, bytes)
    assert loads(body)["messages"][0]["content"] == "ü\n"


def test_q59_the_model_is_sent_as_it_was_chosen():
    assert chat("default", {**lowered(user("a")), "model": "org/x:7b"})["model"] == "org/x:7b"


def test_a_grown_history_extends_the_bytes():
    dialect = make_dialect(load_profile("vllm"))
    first = dialect.encode(lowered(user("a"), tools=[function()]))
    second = dialect.encode(lowered(user("a"), call("1"), output("1"), tools=[function()]))
    assert second.startswith(first.removesuffix(b"]}"))
