"""What real function-only servers refuse, as rules over a request body.

The scripted upstream asks it. Each rule is one refusal seen on a real server. A body that passes
here is one that vLLM, SGLang, llama.cpp, Ollama, LM Studio, ds4, DeepSeek, Kimi and Mistral would
all take. The rules add up: no single server is this strict.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

JSON = dict[str, Any]

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
MAX_TOOLS = 128
CHAT_KEYS = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "response_format",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
    }
)
RESPONSES_KEYS = frozenset(
    {
        "model",
        "input",
        "instructions",
        "stream",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "temperature",
        "top_p",
        "max_output_tokens",
        "reasoning",
        "text",
        "top_logprobs",
        "truncation",
        "store",
    }
)
FUNCTION_KEYS = frozenset({"name", "description", "parameters", "strict"})
USER_PARTS = {"text": "text", "image_url": "image_url"}
INPUT_PARTS = {"input_text": "text", "input_image": "image_url", "output_text": "text"}
ITEM_KEYS = {
    "message": frozenset({"type", "role", "content"}),
    "function_call": frozenset({"type", "call_id", "name", "arguments"}),
    "function_call_output": frozenset({"type", "call_id", "output"}),
    "reasoning": frozenset({"type", "id", "summary", "content"}),
}


class Refusal(Exception):
    """The words with which the strict upstream answers 400."""


def refuse(condition: object, words: str) -> None:
    if condition:
        raise Refusal(words)


def check_headers(headers: Mapping[str, str]) -> None:
    """mlx-lm answers 411 to a chunked body, llama.cpp 415 to a compressed one."""
    refuse("Content-Length" not in headers, "411: the body has no Content-Length")
    refuse("Content-Encoding" in headers, "415: the body is compressed")


def check_body(body: Any, *, chat: bool, allow: Iterable[str] = ()) -> None:
    """Raise `Refusal` for the first thing that some real server would not take."""
    refuse(not isinstance(body, dict), "the body is no object")
    unknown = set(body) - (CHAT_KEYS if chat else RESPONSES_KEYS) - set(allow)
    refuse(unknown, f"Unexpected fields in the request: {sorted(unknown)}")
    refuse(not isinstance(body.get("model"), str), "model is required")
    refuse(not isinstance(body.get("stream"), bool), "stream must be sent explicitly")
    refuse("stream_options" in body and not body["stream"], "stream_options without stream")
    names = check_tools(body, chat=chat)
    check_tool_choice(body, names, chat=chat)
    if chat:
        check_messages(body.get("messages"))
    else:
        check_items(body)


def check_tools(body: JSON, *, chat: bool) -> list[str]:
    """Only functions, with names that every server takes; returns the names."""
    if "tools" not in body:
        return []
    tools = body["tools"]
    refuse(not isinstance(tools, list) or not tools, "[] is too short - 'tools'")
    refuse(len(tools) > MAX_TOOLS, f"more than {MAX_TOOLS} tools")
    names: list[str] = []
    for at, tool in enumerate(tools):
        where = f"tools[{at}]"
        refuse(tool.get("type") != "function", f"{where}: 'type' of tool must be 'function'")
        function: Any = tool.get("function") if chat else {k: tool[k] for k in tool if k != "type"}
        refuse(chat and set(tool) != {"type", "function"}, f"{where}: keys {sorted(tool)}")
        refuse(not isinstance(function, dict), f"{where}: function is required")
        refuse(set(function) - FUNCTION_KEYS, f"{where}: keys {sorted(function)}")
        name = function.get("name")
        refuse(not isinstance(name, str) or not NAME.match(name), f"{where}: name {name!r}")
        refuse(name in names, f"{where}: duplicate name {name!r}")
        refuse(not isinstance(function.get("description", ""), str), f"{where}: description")
        parameters = function.get("parameters")
        refuse(not isinstance(parameters, dict), f"{where}: parameters are no schema")
        refuse(parameters.get("type") != "object", f"{where}: parameters are no object schema")
        names.append(name)
    return names


def check_tool_choice(body: JSON, names: list[str], *, chat: bool) -> None:
    for key in ("tool_choice", "parallel_tool_calls"):
        refuse(key in body and not names, f"'{key}' is only allowed when 'tools' are specified")
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str):
        refuse(choice not in ("auto", "none", "required"), f"tool_choice {choice!r}")
        return
    refuse(not isinstance(choice, dict) or choice.get("type") != "function", "tool_choice type")
    named = choice.get("function", {}).get("name") if chat else choice.get("name")
    refuse(named not in names, f"tool_choice names {named!r}, which is not among the tools")


def check_messages(messages: Any) -> None:
    """Chat history: one system at the front, calls answered at once, nothing empty."""
    refuse(not isinstance(messages, list) or not messages, "messages are empty")
    waiting: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role = message.get("role")
        refuse(role == "developer", f"{where}: role 'developer' is unknown")
        refuse(role not in ("system", "user", "assistant", "tool"), f"{where}: role {role!r}")
        refuse(role == "system" and at, "System message must be at the beginning")
        if role == "tool":
            check_tool_message(message, waiting, where)
            continue
        refuse(waiting, f"{where}: insufficient tool messages following tool_calls: {waiting}")
        if role == "assistant":
            waiting = check_assistant(message, where)
        else:
            check_parts(message.get("content"), USER_PARTS, where)
            refuse(set(message) - {"role", "content"}, f"{where}: keys {sorted(message)}")
    refuse(waiting, f"insufficient tool messages following tool_calls: {waiting}")


def check_tool_message(message: JSON, waiting: list[str], where: str) -> None:
    call_id = message.get("tool_call_id")
    refuse(call_id not in waiting, f"{where}: no preceding (or no open) tool call {call_id!r}")
    waiting.remove(str(call_id))
    refuse(not isinstance(message.get("content"), str), f"{where}: tool content must be a string")
    extra = set(message) - {"role", "content", "tool_call_id", "name"}
    refuse(extra, f"{where}: keys {sorted(extra)}")


def check_assistant(message: JSON, where: str) -> list[str]:
    """Kimi refuses "" beside calls, OpenAI an assistant message that has neither."""
    calls = message.get("tool_calls")
    content = message.get("content")
    refuse(calls is not None and (not isinstance(calls, list) or not calls), f"{where}: tool_calls")
    refuse(content is not None and not isinstance(content, str), f"{where}: content is no string")
    refuse(content == "", f"{where}: text content is empty")
    refuse(content is None and not calls, f"{where}: neither content nor tool_calls")
    known = {"role", "content", "tool_calls", "reasoning_content", "reasoning", "refusal"}
    refuse(set(message) - known, f"{where}: keys {sorted(set(message) - known)}")
    ids: list[str] = []
    for call in calls or []:
        refuse(set(call) != {"id", "type", "function"}, f"{where}: call keys {sorted(call)}")
        refuse(call["type"] != "function", f"{where}: call type")
        refuse(not call["id"] or call["id"] in ids, f"{where}: call id {call['id']!r}")
        function = call["function"]
        refuse(set(function) != {"name", "arguments"}, f"{where}: function keys")
        check_call(function, where)
        ids.append(call["id"])
    return ids


def check_call(call: JSON, where: str) -> None:
    """Ollama, llama.cpp and SGLang want history arguments to be the text of a JSON object."""
    refuse(not NAME.match(str(call.get("name"))), f"{where}: name {call.get('name')!r}")
    try:
        arguments = json.loads(call["arguments"])
    except (TypeError, ValueError, KeyError):
        raise Refusal(f"{where}: Failed to parse tool call arguments as JSON") from None
    refuse(not isinstance(arguments, dict), f"{where}: arguments are no JSON object")


def check_parts(content: Any, kinds: Mapping[str, str], where: str) -> None:
    if isinstance(content, str):
        refuse(not content, f"{where}: content is empty")
        return
    refuse(not isinstance(content, list) or not content, f"{where}: content is empty")
    for part in content:
        kind = kinds.get(part.get("type"))
        refuse(kind is None, f"{where}: part type {part.get('type')!r}")
        refuse(not part.get(str(kind)), f"{where}: empty part")


def check_items(body: JSON) -> None:
    """Input of a Responses server that knows messages, functions and reasoning, without state."""
    items: Any = body.get("input")
    refuse(not isinstance(items, list) or not items, "input is empty")
    calls: set[str] = set()
    answered: set[str] = set()
    for at, item in enumerate(items):
        where = f"input[{at}]"
        kind = item.get("type")
        refuse(kind not in ITEM_KEYS, f"{where}: unknown input item type: {kind!r}")
        extra = set(item) - ITEM_KEYS[kind]
        refuse(extra, f"{where}: keys {sorted(extra)}")
        if kind == "message":
            check_message_item(item, where, late=bool(at) or "instructions" in body)
        elif kind == "function_call":
            call_id = item.get("call_id")
            refuse(not call_id or call_id in calls, f"{where}: call_id {call_id!r}")
            check_call(item, where)
            calls.add(call_id)
        elif kind == "function_call_output":
            call_id = item.get("call_id")
            refuse(call_id not in calls, f"{where}: No tool call found for {call_id!r}")
            refuse(call_id in answered, f"{where}: duplicate output for {call_id!r}")
            refuse(not isinstance(item.get("output"), str), f"{where}: output is no string")
            answered.add(call_id)
        elif kind == "reasoning":
            refuse(not isinstance(item.get("summary"), list), f"{where}: summary is no array")
    refuse(calls - answered, f"No tool output found for function calls {sorted(calls - answered)}")


def check_message_item(item: JSON, where: str, *, late: bool) -> None:
    role = item.get("role")
    refuse(role == "developer", f"{where}: role 'developer' is unknown")
    refuse(role not in ("system", "user", "assistant"), f"{where}: role {role!r}")
    refuse(role == "system" and late, f"{where}: System message must be at the beginning")
    check_parts(item.get("content"), INPUT_PARTS, where)
