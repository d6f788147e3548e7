"""The tools that a request declares and the choice among them: shapes and names, not meaning."""

import re
from typing import Any

from gateway.errors import RequestError
from gateway.wire.checks import (
    Check,
    array,
    boolean,
    by_type,
    fields,
    filled,
    matching,
    nullable,
    one_of,
    record,
    string,
    wrong_type,
    wrong_value,
)

# Function names of the API. Codex cuts `namespace__member` to this length (codex-cli 0.171).
MAX_TOOL_NAME_CHARS = 128

# Tools that the platform itself runs. Whether a server knows one is a matter of its profile.
HOSTED_TOOLS = (
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "mcp",
    "computer",
    "computer_use_preview",
    "local_shell",
    "shell",
    "apply_patch",
    "programmatic_tool_calling",
)
_is_dated = re.compile(r"(.+)_\d{4}_\d{2}_\d{2}").fullmatch  # web_search_2025_08_26

_name = matching("[a-zA-Z0-9_-]+", MAX_TOOL_NAME_CHARS)

_FUNCTION = fields(
    {"name": _name},
    {"description": string, "parameters": record, "strict": boolean, "defer_loading": boolean},
)

_FORMATS: dict[str, Check] = {
    "text": record,
    "grammar": fields({"syntax": one_of("lark", "regex"), "definition": filled}),
}

_CUSTOM = fields(
    {"name": _name},
    {"description": string, "format": by_type(_FORMATS), "defer_loading": boolean},
)

_MEMBERS = by_type({"function": _FUNCTION, "custom": _CUSTOM})

# Codex's responses-lite declares `functions`, which stands for the top level, as a namespace too.
_NAMESPACE = fields(
    {"name": filled, "tools": array(_MEMBERS, of="an array of objects", min_length=1)},
    {"description": string},
)

_TOOL_SEARCH = fields(
    {}, {"execution": one_of("server", "client"), "description": string, "parameters": record}
)

TOOLS: dict[str, Check] = {
    "function": _FUNCTION,
    "custom": _CUSTOM,
    "namespace": _NAMESPACE,
    "tool_search": _TOOL_SEARCH,
    **dict.fromkeys(HOSTED_TOOLS, record),
}
_declared_tool = by_type(TOOLS)

CHOICES = ("none", "auto", "required")

_CHOICE_OBJECTS: dict[str, Check] = {
    "function": fields({"name": filled}),
    "custom": fields({"name": filled}),
    "allowed_tools": fields(
        {
            "mode": one_of("auto", "required"),
            "tools": array(fields({"type": string}), of="an array of objects"),
        }
    ),
    "tool_search": record,
    **dict.fromkeys(HOSTED_TOOLS, record),
}
_choice_object = by_type(_CHOICE_OBJECTS)


def _is_dated_hosted(value: Any) -> bool:
    """A dated variant of a hosted tool, which the tables do not list."""
    if type(value) is not dict or type(value.get("type")) is not str:
        return False
    dated = _is_dated(value["type"])
    return dated is not None and dated[1] in HOSTED_TOOLS


def _tool(tool: Any, path: str) -> None:
    if not _is_dated_hosted(tool):
        _declared_tool(tool, path)


_tools = nullable(array(_tool, of="an array of objects"))


def check_tools(tools: Any, path: str) -> None:
    """The top-level `tools`. Namespaces may repeat (they merge), functions and customs may not."""
    _tools(tools, path)
    first_index: dict[str, int] = {}
    for index, tool in enumerate(tools or ()):
        if tool["type"] not in ("function", "custom"):
            continue
        first = first_index.setdefault(tool["name"], index)
        if first != index:
            raise RequestError(
                f"Invalid value: '{tool['name']}'. Tool names must be unique, "
                f"but '{path}[{first}].name' has the same value.",
                code="invalid_value",
                param=f"{path}[{index}].name",
            )


def check_tool_choice(choice: Any, path: str) -> None:
    """A word, or an object that names a tool or a set of tools."""
    if type(choice) is str:
        if choice not in CHOICES:
            raise wrong_value(path, choice, CHOICES)
    elif type(choice) is not dict:
        raise wrong_type(path, "one of a string or object", choice)
    elif not _is_dated_hosted(choice):
        _choice_object(choice, path)
