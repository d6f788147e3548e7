"""The full Response object."""

from copy import deepcopy

import pytest

from gateway.wire.response import ECHOED, ZERO_USAGE, ended, new_response, public_tool
from tests.shared import check_response

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [],
}
# Required by Open Responses, not null; `service_tier` and `text` among them.
NOT_NULL = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "truncation",
    "text",
    "store",
    "background",
    "service_tier",
    "metadata",
    "parallel_tool_calls",
    "tool_choice",
    "tools",
)
FUNCTION = {"type": "function", "name": "f", "parameters": {}, "strict": True}


def begin(**request):
    request = {"model": "m", **request}
    before = deepcopy(request)
    response = new_response(request, request.get("tools") or [], "resp_1", 1_700_000_000)
    assert request == before
    return response


def test_a_response_begins_empty():
    response = begin()
    assert response["status"] == "in_progress"
    assert (response["id"], response["object"], response["model"]) == ("resp_1", "response", "m")
    assert response["created_at"] == 1_700_000_000
    assert response["output"] == []
    assert response["usage"] is response["error"] is response["completed_at"] is None
    assert response["incomplete_details"] is None


@pytest.mark.parametrize("key", NOT_NULL)
def test_silence_gives_neutral_values(key):
    assert begin()[key] is not None


@pytest.mark.parametrize("key", ECHOED)
def test_what_the_client_said_is_repeated(key):
    assert begin(**{key: 0})[key] == 0
    assert begin(**{key: None})[key] == ECHOED[key]


def test_objects_are_completed():
    response = begin(reasoning={"effort": "high"}, text={"verbosity": "low"}, metadata={"a": "b"})
    assert response["reasoning"] == {"effort": "high", "summary": None}
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert response["metadata"] == {"a": "b"}
    assert begin(reasoning=None, text=None, metadata=None)["metadata"] == {}


def test_private_fields_are_not_repeated():
    response = begin(client_metadata={"turn": "x"}, generate=True, stream=True, include=[])
    assert not {"client_metadata", "generate", "stream", "include", "input"} & set(response)


@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        (FUNCTION, FUNCTION),
        (
            {"type": "function", "name": "f"},
            {"type": "function", "name": "f", "strict": False, "parameters": None},
        ),
        (
            {"type": "function", "name": "f", "strict": None},
            {"type": "function", "name": "f", "strict": None, "parameters": None},
        ),
        (
            {"type": "function", "name": "f", "parameters": {"x": 1}},
            {"type": "function", "name": "f", "strict": False, "parameters": {"x": 1}},
        ),
        ({"type": "custom", "name": "c"}, {"type": "custom", "name": "c"}),
        ({"type": "web_search"}, {"type": "web_search"}),
        (
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
        ),
    ],
)
def test_tools_are_shown_as_they_were_sent(tool, shown):
    assert public_tool(tool) == shown
    assert begin(tools=[tool])["tools"] == [shown]


def test_an_end_changes_only_what_ends():
    response = begin()
    before = deepcopy(response)
    done = ended(response, "completed", [MESSAGE], None, completed_at=1_700_000_001)
    assert response == before
    assert done["usage"] == ZERO_USAGE
    assert done == {
        **response,
        "status": "completed",
        "output": [MESSAGE],
        "usage": ZERO_USAGE,
        "completed_at": 1_700_000_001,
    }


def test_usage_is_kept_as_it_is():
    usage = {**ZERO_USAGE, "input_tokens": 3, "total_tokens": 3, "new": 1}
    assert ended(begin(), "incomplete", [], usage)["usage"] == usage


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ("completed", {"completed_at": 1_700_000_001}),
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}),
        ("failed", {"error": {"code": "server_error", "message": "x"}}),
    ],
)
@pytest.mark.parametrize(
    "request_fields",
    [{}, {"tools": [FUNCTION, {"type": "function", "name": "g"}], "temperature": 0.5}],
)
def test_the_checker_takes_every_end(status, fields, request_fields):
    output = [MESSAGE] if status == "completed" else []
    response = ended(begin(**request_fields), status, output, None, **fields)
    check_response(response, request={"model": "m", "input": "hi", **request_fields})
