"""gateway/wire/{request,items,declarations,checks}.py: one row for each rule, in the API's words."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.wire.declarations import HOSTED_TOOLS, TOOLS
from gateway.wire.items import CONTENT_PARTS, ITEMS
from gateway.wire.json import JSON, loads
from gateway.wire.request import FIELDS, check_request, check_stream_id

CODEX = Path(__file__).parents[1] / "recordings" / "codex"

CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
CUSTOM = {"type": "custom_tool_call", "call_id": "call_1", "name": "f", "input": ""}
FUNCTION = {"type": "function", "name": "f"}


def request(**fields: Any) -> JSON:
    return {"model": "m", "input": "hi", **fields}


def item(**fields: Any) -> JSON:
    return request(input=[fields])


def tool(**fields: Any) -> JSON:
    return request(tools=[fields])


def without(fields: JSON, name: str) -> JSON:
    return {key: value for key, value in fields.items() if key != name}


def refusal(body: Any) -> tuple[str | None, str, str | None]:
    """What a client is told: param, message, code."""
    with pytest.raises(RequestError) as caught:
        check_request(body)
    error = caught.value
    assert (error.status, error.type) == (400, "invalid_request_error")
    return error.param, error.message, error.code


# -------------------------------------------------------------------------------------------- accepted
def codex_requests() -> Iterator[JSON]:
    """Every request body that the real Codex CLI sent in the recordings."""
    for path in sorted(CODEX.glob("*_ws.jsonl")):
        for line in path.read_bytes().splitlines():
            record = loads(line)
            if record["dir"] == "c2s" and record["kind"] == "text":
                yield loads(record["text"])


def test_everything_that_codex_sends_is_a_request() -> None:
    bodies = list(codex_requests())
    assert len(bodies) > 10
    for body in bodies:
        before = deepcopy(body)
        assert check_request(body) is body
        assert body == before


@pytest.mark.parametrize(
    "body",
    [
        request(),
        request(input=""),
        request(input=[]),
        {"model": "m", "previous_response_id": "resp_1"},
        {"model": "m", "input": None, "conversation": {"id": "conv_1"}},
        {"model": "m", "conversation": "conv_1"},
        {"model": "m", "prompt": {"id": "pmpt_1"}},
        request(**dict.fromkeys(without(FIELDS, "input"))),
        request(unknown={"x": 1}, client_metadata={"a": "b"}),
        request(temperature=0, top_p=1, max_output_tokens=1, top_logprobs=20, max_tool_calls=0),
        request(temperature=2.0, top_p=0.5, presence_penalty=-2, frequency_penalty=2),
        request(stream=True, store=False, generate=False, background=False),
        request(text={"format": {"type": "text"}, "verbosity": "low"}, reasoning={"effort": "max"}),
        request(
            text={"format": {"type": "json_schema", "name": "x", "schema": {}, "strict": True}}
        ),
        request(include=["reasoning.encrypted_content"], metadata={}, truncation="auto"),
        request(context_management=[{"type": "compaction", "compact_threshold": 1000}]),
        item(role="user", content="hi"),
        item(type="message", role="developer", content=[{"type": "input_text", "text": ""}]),
        item(role="assistant", content=[{"type": "refusal", "refusal": "no"}], phase="commentary"),
        item(role="user", content=[{"type": "input_image", "image_url": "data:,", "detail": None}]),
        item(role="user", content=[{"type": "text", "text": "x"}, {"type": "input_file"}]),
        item(role="user", content=[{"type": "input_audio", "input_audio": {}}]),
        item(**CALL, namespace=None, id=None, status="completed", extra=1),
        item(**CUSTOM, namespace="functions"),
        item(type="function_call_output", call_id="c", output=""),
        item(type="custom_tool_call_output", call_id="c", output=[], name="exec"),
        item(
            type="function_call_output", call_id="c", output=[{"type": "input_text", "text": "x"}]
        ),
        item(type="tool_search_call", arguments={"query": "x"}, execution="client", call_id=None),
        item(type="tool_search_call", arguments="{", call_id=""),
        item(type="tool_search_output", tools=[None, 1, {}]),
        item(type="additional_tools", role="developer", tools=[FUNCTION, FUNCTION]),
        item(type="additional_tools", tools=[]),
        item(type="reasoning", summary=[], content=None, encrypted_content=None),
        item(type="compaction", encrypted_content="x"),
        item(type="compaction_summary", encrypted_content="x"),
        item(type="context_compaction"),
        item(type="compaction_trigger"),
        item(type="item_reference", id="msg_1"),
        item(type="acme:telemetry_chunk", anything=[None]),
        tool(**FUNCTION),
        tool(**FUNCTION, parameters=None, strict=None, description=None, defer_loading=True),
        tool(type="function", name="a-B_9" * 25 + "xyz"),
        tool(type="custom", name="f"),
        tool(type="custom", name="f", format=None),
        tool(type="custom", name="f", format={"type": "text"}),
        tool(
            type="custom",
            name="f",
            format={"type": "grammar", "syntax": "regex", "definition": "a"},
        ),
        tool(type="namespace", name="n", tools=[FUNCTION, {"type": "custom", "name": "f"}]),
        tool(type="tool_search"),
        tool(type="tool_search", execution="client", description="", parameters={}),
        tool(type="web_search_2025_08_26", filters={}),
        tool(type="web_search_preview_2025_03_11"),
        request(tools=[{"type": kind} for kind in HOSTED_TOOLS]),
        request(tools=[]),
        request(
            tools=[
                {"type": "namespace", "name": "n", "tools": [FUNCTION]},
                {"type": "namespace", "name": "n", "tools": [FUNCTION, FUNCTION]},
                FUNCTION,
            ]
        ),
        request(tool_choice="required"),
        request(tool_choice={"type": "function", "name": "f"}),
        request(tool_choice={"type": "custom", "name": "f"}),
        request(tool_choice={"type": "tool_search"}),
        request(tool_choice={"type": "web_search_2025_08_26"}),
        request(tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION]}),
    ],
)
def test_accepted_unchanged(body: JSON) -> None:
    before = deepcopy(body)
    assert check_request(body) is body
    assert body == before


# --------------------------------------------------------------------------------------------- refused
EMPTY = "empty string. Expected a string with minimum length 1, but got an empty string instead."
ONE_OR_MANY = "one of a string or array of objects"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "model"),
        ({"input": "hi"}, "model"),
        ({"model": "m"}, "input"),
        ({"model": "m", "input": None, "previous_response_id": None}, "input"),
        ({"model": "m", "conversation": ""}, "input"),
        (item(), "input[0].type"),
        (item(content="x"), "input[0].type"),
        (item(role="user"), "input[0].content"),
        (item(type="message", content="x"), "input[0].role"),
        *((item(**without(CALL, name)), f"input[0].{name}") for name in CALL),
        *((item(**without(CUSTOM, name)), f"input[0].{name}") for name in CUSTOM),
        (item(type="function_call_output", output=""), "input[0].call_id"),
        (item(type="function_call_output", call_id="c"), "input[0].output"),
        (item(type="custom_tool_call_output", call_id="c"), "input[0].output"),
        (item(type="tool_search_call"), "input[0].arguments"),
        (item(type="tool_search_output"), "input[0].tools"),
        (item(type="additional_tools"), "input[0].tools"),
        (item(type="additional_tools", tools=[{}]), "input[0].tools[0].type"),
        (item(type="reasoning"), "input[0].summary"),
        (item(type="compaction"), "input[0].encrypted_content"),
        (item(type="item_reference"), "input[0].id"),
        (item(role="user", content=[{}]), "input[0].content[0].type"),
        (item(role="user", content=[{"type": "input_text"}]), "input[0].content[0].text"),
        (tool(), "tools[0].type"),
        (tool(type="function"), "tools[0].name"),
        (tool(type="function", function={"name": "f"}), "tools[0].name"),
        (tool(type="custom"), "tools[0].name"),
        (tool(type="custom", name="f", format={}), "tools[0].format.type"),
        (tool(type="custom", name="f", format={"type": "grammar"}), "tools[0].format.syntax"),
        (
            tool(type="custom", name="f", format={"type": "grammar", "syntax": "lark"}),
            "tools[0].format.definition",
        ),
        (tool(type="namespace", name="n"), "tools[0].tools"),
        (tool(type="namespace", tools=[FUNCTION]), "tools[0].name"),
        (tool(type="namespace", name="n", tools=[{}]), "tools[0].tools[0].type"),
        (request(tool_choice={}), "tool_choice.type"),
        (request(tool_choice={"type": "function"}), "tool_choice.name"),
        (request(tool_choice={"type": "allowed_tools", "mode": "auto"}), "tool_choice.tools"),
        (request(text={"format": {}}), "text.format.type"),
        (request(text={"format": {"type": "json_schema", "name": "x"}}), "text.format.schema"),
    ],
)
def test_missing(body: JSON, param: str) -> None:
    message = f"Missing required parameter: '{param}'."
    assert refusal(body) == (param, message, "missing_required_parameter")


@pytest.mark.parametrize(
    ("body", "param", "expected", "got"),
    [
        (request(model=None), "model", "a string", "null"),
        (request(model=5), "model", "a string", "an integer"),
        (request(input=5), "input", ONE_OR_MANY, "an integer"),
        (request(input={}), "input", ONE_OR_MANY, "an object"),
        (request(input=["x"]), "input[0]", "an object", "a string"),
        (request(input=[None]), "input[0]", "an object", "null"),
        (item(type=None), "input[0].type", "a string", "null"),
        (item(type=["message"]), "input[0].type", "a string", "an array"),
        (item(role=1, content=""), "input[0].role", "a string", "an integer"),
        (item(role="user", content=None), "input[0].content", ONE_OR_MANY, "null"),
        (item(role="user", content=["x"]), "input[0].content[0]", "an object", "a string"),
        (item(**{**CALL, "arguments": {}}), "input[0].arguments", "a string", "an object"),
        (item(**{**CALL, "call_id": None}), "input[0].call_id", "a string", "null"),
        (item(**CALL, namespace=1), "input[0].namespace", "a string", "an integer"),
        (item(**{**CUSTOM, "input": {}}), "input[0].input", "a string", "an object"),
        (
            item(type="function_call_output", call_id="c", output=None),
            "input[0].output",
            ONE_OR_MANY,
            "null",
        ),
        (
            item(type="tool_search_output", tools={}),
            "input[0].tools",
            "an array of objects",
            "an object",
        ),
        (item(type="additional_tools", tools=[1]), "input[0].tools[0]", "an object", "an integer"),
        (item(type="reasoning", summary=""), "input[0].summary", "an array of objects", "a string"),
        (
            item(type="reasoning", summary=[], content=[{"type": "reasoning_text", "text": 1}]),
            "input[0].content[0].text",
            "a string",
            "an integer",
        ),
        (
            item(type="reasoning", summary=[{"type": "summary_text", "text": ["a"]}]),
            "input[0].summary[0].text",
            "a string",
            "an array",
        ),
        (request(tools={}), "tools", "an array of objects", "an object"),
        (request(tools=[None]), "tools[0]", "an object", "null"),
        (request(tools=[FUNCTION, "f"]), "tools[1]", "an object", "a string"),
        (tool(type=7), "tools[0].type", "a string", "an integer"),
        (tool(type="function", name=None), "tools[0].name", "a string", "null"),
        (tool(**FUNCTION, parameters=[]), "tools[0].parameters", "an object", "an array"),
        (tool(**FUNCTION, strict="yes"), "tools[0].strict", "a boolean", "a string"),
        (tool(type="custom", name="f", format="lark"), "tools[0].format", "an object", "a string"),
        (
            tool(type="namespace", name="n", tools={}),
            "tools[0].tools",
            "an array of objects",
            "an object",
        ),
        (request(tool_choice=1), "tool_choice", "one of a string or object", "an integer"),
        (request(tool_choice=[]), "tool_choice", "one of a string or object", "an array"),
        (request(temperature="hot"), "temperature", "a decimal", "a string"),
        (request(temperature=True), "temperature", "a decimal", "a boolean"),
        (request(max_output_tokens=1.5), "max_output_tokens", "an integer", "a decimal"),
        (request(max_output_tokens=False), "max_output_tokens", "an integer", "a boolean"),
        (request(stream=1), "stream", "a boolean", "an integer"),
        (request(store="true"), "store", "a boolean", "a string"),
        (request(generate=0), "generate", "a boolean", "an integer"),
        (request(background=[]), "background", "a boolean", "an array"),
        (request(parallel_tool_calls={}), "parallel_tool_calls", "a boolean", "an object"),
        (request(metadata=[]), "metadata", "an object", "an array"),
        (request(include="x"), "include", "an array of strings", "a string"),
        (request(include=[1]), "include[0]", "a string", "an integer"),
        (request(previous_response_id=5), "previous_response_id", "a string", "an integer"),
        (request(conversation=5), "conversation", "one of a string or object", "an integer"),
        (request(instructions=[]), "instructions", "a string", "an array"),
        (request(reasoning="high"), "reasoning", "an object", "a string"),
        (request(reasoning={"effort": 1}), "reasoning.effort", "a string", "an integer"),
        (request(text={"format": "json"}), "text.format", "an object", "a string"),
    ],
)
def test_wrong_type(body: JSON, param: str, expected: str, got: str) -> None:
    message = f"Invalid type for '{param}': expected {expected}, but got {got} instead."
    assert refusal(body) == (param, message, "invalid_type")


@pytest.mark.parametrize(
    ("body", "got"), [(None, "null"), ([], "an array"), ("x", "a string"), (1.5, "a decimal")]
)
def test_the_body_is_an_object(body: Any, got: str) -> None:
    message = f"Invalid type for the request body: expected an object, but got {got} instead."
    assert refusal(body) == (None, message, "invalid_type")


@pytest.mark.parametrize(
    ("body", "param", "value", "supported"),
    [
        (
            item(role="tool", content=""),
            "input[0].role",
            "tool",
            "'assistant', 'system', 'developer', and 'user'",
        ),
        (
            tool(type="custom", name="f", format={"type": "xml"}),
            "tools[0].format.type",
            "xml",
            "'text' and 'grammar'",
        ),
        (
            tool(type="custom", name="f", format={"type": "grammar", "syntax": "gbnf"}),
            "tools[0].format.syntax",
            "gbnf",
            "'lark' and 'regex'",
        ),
        (
            tool(type="namespace", name="n", tools=[{"type": "web_search"}]),
            "tools[0].tools[0].type",
            "web_search",
            "'function' and 'custom'",
        ),
        (
            tool(type="tool_search", execution="cloud"),
            "tools[0].execution",
            "cloud",
            "'server' and 'client'",
        ),
        (request(tool_choice="any"), "tool_choice", "any", "'none', 'auto', and 'required'"),
        (
            request(tool_choice={"type": "allowed_tools", "mode": "none", "tools": []}),
            "tool_choice.mode",
            "none",
            "'auto' and 'required'",
        ),
        (request(truncation="middle"), "truncation", "middle", "'auto' and 'disabled'"),
        (
            request(text={"format": {"type": "yaml"}}),
            "text.format.type",
            "yaml",
            "'text', 'json_object', and 'json_schema'",
        ),
    ],
)
def test_wrong_value(body: JSON, param: str, value: str, supported: str) -> None:
    message = f"Invalid value: '{value}'. Supported values are: {supported}."
    assert refusal(body) == (param, message, "invalid_value")


@pytest.mark.parametrize(
    ("body", "param", "supported"),
    [
        (tool(type="bogus"), "tools[0].type", TOOLS),
        (tool(type="function_2025_01_01"), "tools[0].type", TOOLS),
        (item(role="user", content=[{"type": "bogus"}]), "input[0].content[0].type", CONTENT_PARTS),
        (request(tool_choice={"type": "bogus"}), "tool_choice.type", {}),
    ],
)
def test_an_unknown_type_names_the_known_ones(body: JSON, param: str, supported: JSON) -> None:
    got_param, message, code = refusal(body)
    assert (got_param, code) == (param, "invalid_value")
    assert message.startswith("Invalid value: '")
    for kind in supported:
        assert f"'{kind}'" in message


@pytest.mark.parametrize(
    ("body", "param", "reason", "code"),
    [
        (request(model=""), "model", EMPTY, "empty_string"),
        (item(**{**CALL, "call_id": ""}), "input[0].call_id", EMPTY, "empty_string"),
        (item(**{**CUSTOM, "name": ""}), "input[0].name", EMPTY, "empty_string"),
        (item(type="item_reference", id=""), "input[0].id", EMPTY, "empty_string"),
        (tool(type="function", name=""), "tools[0].name", EMPTY, "empty_string"),
        (tool(type="custom", name=""), "tools[0].name", EMPTY, "empty_string"),
        (tool(type="namespace", name="", tools=[FUNCTION]), "tools[0].name", EMPTY, "empty_string"),
        (
            tool(
                type="custom",
                name="f",
                format={"type": "grammar", "syntax": "lark", "definition": ""},
            ),
            "tools[0].format.definition",
            EMPTY,
            "empty_string",
        ),
        (
            tool(type="function", name="a b"),
            "tools[0].name",
            "string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "invalid_value",
        ),
        (
            tool(type="function", name="x" * 129),
            "tools[0].name",
            "string too long. Expected a string with maximum length 128, "
            "but got a string with length 129 instead.",
            "string_above_max_length",
        ),
        (
            tool(type="namespace", name="n", tools=[]),
            "tools[0].tools",
            "empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "empty_array",
        ),
        (
            request(temperature=2.5),
            "temperature",
            "decimal above maximum value. Expected a value <= 2, but got 2.5 instead.",
            "decimal_above_max_value",
        ),
        (
            request(top_p=-1),
            "top_p",
            "decimal below minimum value. Expected a value >= 0, but got -1 instead.",
            "decimal_below_min_value",
        ),
        (
            request(max_output_tokens=0),
            "max_output_tokens",
            "integer below minimum value. Expected a value >= 1, but got 0 instead.",
            "integer_below_min_value",
        ),
        (
            request(top_logprobs=21),
            "top_logprobs",
            "integer above maximum value. Expected a value <= 20, but got 21 instead.",
            "integer_above_max_value",
        ),
    ],
)
def test_out_of_bounds(body: JSON, param: str, reason: str, code: str) -> None:
    assert refusal(body) == (param, f"Invalid '{param}': {reason}", code)


@pytest.mark.parametrize("kinds", [("function", "function"), ("function", "custom")])
def test_a_name_is_declared_once(kinds: tuple[str, str]) -> None:
    tools = [{"type": "web_search"}, *({"type": kind, "name": "f"} for kind in kinds)]
    param, message, _ = refusal(request(tools=tools))
    assert param == "tools[2].name"
    assert message == (
        "Invalid value: 'f'. Tool names must be unique, but 'tools[1].name' has the same value."
    )


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
_typed = st.dictionaries(
    st.sampled_from(["role", "content", "call_id", "name", "tools", "output", "format", "summary"]),
    _json,
).flatmap(
    lambda fields: st.sampled_from([*ITEMS, *TOOLS, "new"]).map(
        lambda kind: {"type": kind, **fields}
    )
)


@given(
    st.dictionaries(st.sampled_from(["model", *FIELDS]), _json | _typed | st.lists(_typed | _json))
)
def test_any_json_is_a_request_or_refused(body: JSON) -> None:
    before = repr(body)
    param: str | None = ""
    try:
        check_request(body)
    except RequestError as error:
        param = error.param
    assert param is not None
    assert repr(body) == before


# ----------------------------------------------------------------------------------------------- lanes
@pytest.mark.parametrize("stream_id", ["a", "A-z_0.9", "x" * 256])
def test_a_lane_has_a_name(stream_id: str) -> None:
    assert check_stream_id({"stream_id": stream_id}) == stream_id


def test_the_default_lane_has_none() -> None:
    assert check_stream_id({}) is None
    assert check_stream_id({"stream_id": None}) is None


@pytest.mark.parametrize("stream_id", ["", "x" * 257, "a b", "a\n", "ü", "a/b", 1, [], True])
def test_a_bad_lane_name_is_refused_in_the_documented_words(stream_id: Any) -> None:
    with pytest.raises(RequestError) as caught:
        check_stream_id({"stream_id": stream_id})
    assert caught.value.frame()["error"] == {
        "type": "invalid_request_error",
        "code": "invalid_stream_id",
        "param": "stream_id",
        "message": (
            "The 'stream_id' field must be a non-empty string with at most 256 characters and may "
            "only contain letters, numbers, underscores, hyphens, and periods."
        ),
    }
    assert "stream_id" not in caught.value.frame()
