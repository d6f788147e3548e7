"""What servers say when they refuse: every shape, wording and code."""

import json

import pytest

from gateway.errors import UpstreamError
from gateway.upstream.errors import (
    CONTEXT,
    MAX_FAILED_GENERATION_CHARS,
    MAX_MESSAGE_CHARS,
    read_error,
    read_fault,
)
from gateway.upstream.profiles import Profile

PROFILE = Profile(name="vllm")


def read(body, status=400, **headers) -> UpstreamError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_error(PROFILE, status, headers, raw)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "boom", "type": "x", "param": None, "code": 400}}, "boom"),
        ({"error": "boom"}, "boom"),  # mlx-lm
        ({"error": {"error": {"message": "boom"}}}, "boom"),
        ({"object": "error", "message": "boom", "type": "Bad Request", "code": 400}, "boom"),
        ({"message": "boom"}, "boom"),
        ({"detail": "boom"}, "boom"),  # FastAPI
        ({"detail": [{"loc": ["body", 24], "msg": "boom"}, {"msg": "bang"}]}, "body.24: boom; bang"),
        ({"detail": ["boom", {"x": 1}, None]}, 'boom; {"x":1}'),
        ({"error": {"detail": "boom"}}, "boom"),
        ({"error": 7}, "7"),
        (["boom"], "boom"),
        ("boom", "boom"),
        (b"boom", "boom"),
        (b"Internal Server Error", "Internal Server Error"),  # [rec chat-14 of transformers]
        (b"\xef\xbb\xbfboom \xff", "boom \ufffd"),
        (b"", "The upstream answered HTTP 400 with an empty body."),  # [rec resp-36 of llama.cpp]
        (b"<html><title>\n 502\n Bad &lt;Gateway </title>", "The upstream answered HTML (502 Bad <Gateway)."),
        (b"<!doctype html><p>no", "The upstream answered HTML (no title)."),
        (b"null", "The upstream reported an error without a message."),
        ({}, "The upstream reported an error without a message: {}"),
        ({"error": {"code": 500}}, 'The upstream reported an error without a message: {"code":500}'),
    ],
)  # fmt: skip
def test_q06_shapes(body, message):
    error = read(body)
    assert error.message == message
    assert error.status == 400


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (400, None),
        ("400", None),  # LiteLLM
        (None, None),
        ("tool_use_failed", "tool_use_failed"),
        (3230, None),
    ],
)
def test_q07_codes_are_words(code, expected):
    assert read({"error": {"message": "boom", "code": code}}).code == expected


def test_q07_failed_generation_is_shown():
    error = {"message": "Failed.", "code": "tool_use_failed", "failed_generation": "x" * 5000}
    message = read({"error": error}).message
    assert message == "Failed. The model had written: " + "x" * MAX_FAILED_GENERATION_CHARS


def test_fields_are_kept():
    error = read({"error": {"message": "boom", "type": "BadRequestError", "param": "tools"}})
    assert (error.type, error.param) == ("BadRequestError", "tools")
    odd = read({"error": {"message": "boom", "type": 3, "param": ["x"]}}, status=500)
    assert (odd.type, odd.param) == ("server_error", None)


CONTEXT_WORDINGS = [
    "request (9033 tokens) exceeds the available context size (2048 tokens), try increasing it",
    "This model's maximum context length is 4096 tokens. However, your prompt contains 4097",
    "Your input exceeds the context window of this model.",
    "litellm.ContextWindowExceededError: litellm.BadRequestError: x",
    "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
    "Requested token count exceeds the model's maximum context length of 4096 tokens.",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "prompt too long; exceeded max context length by 12 tokens",
    "the input length exceeds the context length",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
    "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
    "Invalid request: Your request exceeded model token limit: 8192",
    "Range of input length should be [1, 30720]",
    "Please reduce the length of the messages or completion.",
    "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
    "context length",
]


@pytest.mark.parametrize("wording", CONTEXT_WORDINGS)
@pytest.mark.parametrize("status", [400, 413, 500])
def test_q58_context_overflow(wording, status):
    error = read({"error": {"message": wording, "type": "server_error", "code": status}}, status)
    assert (error.code, error.status, error.type) == (CONTEXT, 400, "invalid_request_error")
    assert error.message == wording


@pytest.mark.parametrize(
    "error",
    [
        {"message": "x", "code": "context_length_exceeded"},
        {"message": "x", "type": "exceed_context_size_error", "code": 400},
    ],
)
def test_q58_context_overflow_by_code_or_type(error):
    assert read({"error": error}).code == CONTEXT


@pytest.mark.parametrize(
    "wording",
    [
        "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
        "Cannot apply chat template to an empty conversation.",
        "Invalid JSON in context",
        "tools: too many entries",
    ],
)
def test_q58_other_wordings_are_no_overflow(wording):
    assert read({"error": wording}).code is None


def test_unknown_models():
    error = read({"error": {"message": "The model `nope` does not exist."}}, 404)
    assert (error.code, error.status) == ("model_not_found", 404)


@pytest.mark.parametrize("status", [401, 403])
def test_the_upstream_refuses_our_key(status):
    error = read({"error": "Invalid API key"}, status)
    assert error.status == status
    assert "upstream model server (vllm) refused the gateway's own key" in error.message
    assert "Invalid API key" in error.message


@pytest.mark.parametrize(
    ("status", "type"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_q57_statuses_are_kept(status, type):
    error = read({"error": "boom"}, status)
    assert (error.status, error.type) == (status, type)
    assert error.code == ("rate_limit_exceeded" if status == 429 else None)


@pytest.mark.parametrize("status", [101, 200, 302])
def test_a_status_that_is_no_error(status):
    assert read(b"", status).status == 502


def test_retry_after_is_kept():
    error = read({"error": "busy"}, 429, **{"retry-after": "7", "Retry-After-Ms": "70", "X": "1"})
    assert error.headers == {"Retry-After": "7", "Retry-After-Ms": "70"}
    assert read({"error": "busy"}, 429).headers == {}


def test_long_messages_are_shortened():
    """vLLM's union dump: 238 errors for one unknown item."""
    dump = "\n".join(["238 validation errors:", *(f"  {{'loc': {n}}}" for n in range(238))])
    message = read({"error": {"message": dump, "code": 400}}).message
    assert message.splitlines()[-1] == "… (233 more lines)"
    assert len(message.splitlines()) == 7
    long = read({"error": "x" * 9000}).message
    assert long == "x" * MAX_MESSAGE_CHARS + " … [truncated]"
    seven = "\n".join("1234567")
    assert read({"error": seven}).message == seven


def test_faults_of_streams():
    assert read_fault({"message": "boom", "type": "error"}).type is None
    assert read_fault(None).message == "The upstream reported an error without a message."
    assert read_fault({"error": "boom"}).message == "boom"
