"""Is this a request? Every field that we know is checked; nothing is changed or dropped.

Unknown fields and unknown item types are none of this file's business: they pass. What a request
means (does the call exist, can this server do it) is decided further up.
"""

import re
from typing import Any

from gateway.errors import RequestError
from gateway.wire.checks import (
    Check,
    array,
    boolean,
    by_type,
    decimal,
    fields,
    filled,
    integer,
    missing,
    one_of,
    record,
    string,
    wrong_type,
)
from gateway.wire.declarations import check_tool_choice, check_tools
from gateway.wire.items import check_input
from gateway.wire.json import JSON

# 256 is the API's own limit (guide: WebSocket mode).
MAX_STREAM_ID_CHARS = 256

_is_stream_id = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_STREAM_ID_CHARS}}}").fullmatch

_TEXT_FORMATS: dict[str, Check] = {
    "text": record,
    "json_object": record,
    "json_schema": fields({"name": filled, "schema": record}, {"strict": boolean}),
}


# 1000 is the API's own least threshold.
_CONTEXT_EDITS: dict[str, Check] = {"compaction": fields({}, {"compact_threshold": integer(1000)})}


def _conversation(value: Any, path: str) -> None:
    if type(value) is not str and type(value) is not dict:
        raise wrong_type(path, "one of a string or object", value)


# null means absent for all of these.
FIELDS: dict[str, Check] = {
    "input": check_input,
    "instructions": string,
    "tools": check_tools,
    "tool_choice": check_tool_choice,
    "parallel_tool_calls": boolean,
    "max_tool_calls": integer(0),
    "previous_response_id": string,
    "conversation": _conversation,
    "prompt": record,
    "context_management": array(by_type(_CONTEXT_EDITS), of="an array of objects"),
    "stream": boolean,
    "stream_options": record,
    "store": boolean,
    "background": boolean,
    "generate": boolean,
    "temperature": decimal(0, 2),
    "top_p": decimal(0, 1),
    "presence_penalty": decimal(-2, 2),
    "frequency_penalty": decimal(-2, 2),
    "top_logprobs": integer(0, 20),
    # The API's own minimum is 16. Local servers count as low as 1, and tests like to.
    "max_output_tokens": integer(1),
    "truncation": one_of("auto", "disabled"),
    "reasoning": fields({}, {"effort": string, "summary": string}),
    "text": fields({}, {"format": by_type(_TEXT_FORMATS), "verbosity": string}),
    "include": array(string, of="an array of strings"),
    "metadata": record,
    "client_metadata": record,
    "user": string,
    "safety_identifier": string,
    "service_tier": string,
    "prompt_cache_key": string,
}

_body = fields({"model": filled}, FIELDS)

# A request with one of these has its input elsewhere.
_INPUT_ELSEWHERE = ("previous_response_id", "prompt", "conversation")


def check_request(body: Any) -> JSON:
    """The body of `POST /v1/responses`, or a `response.create` frame without its envelope.

    Returns:
        The very object that was given.

    Raises:
        RequestError: the first field at fault, with its path in `param`.
    """
    _body(body, "")
    if body.get("input") is None and not any(body.get(name) for name in _INPUT_ELSEWHERE):
        raise missing("input")
    checked: JSON = body
    return checked


def check_stream_id(frame: JSON) -> str | None:
    """The lane that a WebSocket frame names; None is the default lane.

    Raises:
        RequestError: `invalid_stream_id`, in the documented words.
    """
    stream_id = frame.get("stream_id")
    if stream_id is None:
        return None
    if type(stream_id) is not str or not _is_stream_id(stream_id):
        raise RequestError(
            "The 'stream_id' field must be a non-empty string with at most "
            f"{MAX_STREAM_ID_CHARS} characters and may only contain letters, numbers, "
            "underscores, hyphens, and periods.",
            code="invalid_stream_id",
            param="stream_id",
        )
    return stream_id
