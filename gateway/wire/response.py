"""The full Response object: every lifecycle event and every blocking body carries all of its keys.

Key set and neutral values: the 2026 wire of the API (responses-api.md section 6), a superset of what Open Responses
demands, so that both families of clients can parse it.
"""

from typing import Any, Final

from gateway.wire.json import JSON

# Fields of the request that the API repeats in the response, with what it says when the client was silent.
ECHOED: Final[dict[str, Any]] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}

ZERO_USAGE: Final[JSON] = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def new_response(request: JSON, tools: list[JSON], response_id: str, created_at: int) -> JSON:
    """The Response of a request that has just begun: `in_progress`, no output, no usage.

    Args:
        request: the public request as the client sent it.
        tools: the public tools to echo, never a lowered form.
        response_id: `resp_…`.
        created_at: seconds since 1970.
    """
    echo = {key: _echo(request, key, neutral) for key, neutral in ECHOED.items()}
    reasoning = request.get("reasoning") or {}
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": request["model"],
        "output": [],
        **echo,
        "reasoning": {"effort": None, "summary": None, **reasoning},
        "service_tier": "default",
        "text": {"format": {"type": "text"}, "verbosity": "medium", **(request.get("text") or {})},
        "tools": [public_tool(tool) for tool in tools],
        "usage": None,
        "metadata": request.get("metadata") or {},
    }


def _echo(request: JSON, key: str, neutral: Any) -> Any:
    value = request.get(key)
    return neutral if value is None else value


def public_tool(tool: JSON) -> JSON:
    """A tool as the response shows it: a function always has `strict` and `parameters` (FunctionTool.required)."""
    if tool.get("type") == "function" and not ("strict" in tool and "parameters" in tool):
        return {"strict": False, "parameters": None, **tool}
    return tool


def ended(
    response: JSON, status: str, output: list[JSON], usage: JSON | None, **fields: Any
) -> JSON:
    """The Response at its end.

    Args:
        response: what `new_response` gave.
        status: `completed`, `incomplete`, `failed` or `cancelled`.
        output: the items in order of `output_index`.
        usage: a complete usage object; None becomes zeros, since clients need the object (codex-cli 0.171).
        fields: `completed_at`, `error` or `incomplete_details`.
    """
    return {
        **response,
        "status": status,
        "output": output,
        "usage": ZERO_USAGE if usage is None else usage,
        **fields,
    }
