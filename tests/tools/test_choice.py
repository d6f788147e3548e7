"""tool_choice."""

import pytest

from gateway.errors import RequestError
from gateway.tools.choice import lower_choice
from gateway.tools.options import ToolOptions
from gateway.tools.table import ToolTable

FORECAST = {"type": "function", "name": "get_forecast"}
LATER = {"type": "function", "name": "later", "defer_loading": True}
WEATHER = {"type": "namespace", "name": "mcp__weather", "tools": [FORECAST]}
MCP = {"type": "mcp", "server_label": "docs"}
TOOLS = [
    {"type": "function", "name": "shell"},
    {"type": "custom", "name": "apply_patch"},
    WEATHER,
    LATER,
    {"type": "tool_search", "execution": "client"},
    {"type": "web_search"},
    MCP,
]
ALL = ["shell", "apply_patch", "mcp__weather__get_forecast", "tool_search"]


def table(hosted="drop", tools=TOOLS):
    return ToolTable.build(tools, [], ToolOptions(hosted=hosted))


def lower(choice, hosted="drop", tools=TOOLS):
    chosen = lower_choice(choice, table(hosted, tools))
    sent = [row.upstream for row in chosen.rows]
    return chosen.tool_choice, sent, [tool["type"] for tool in chosen.hosted]


def allowed(*tools, **fields):
    return {"type": "allowed_tools", "mode": "auto", "tools": list(tools), **fields}


@pytest.mark.parametrize(
    ("choice", "lowered"),
    [(None, "auto"), ("auto", "auto"), ("none", "none"), ("required", "required")],
)
def test_words(choice, lowered):
    assert lower(choice) == (lowered, ALL, [])


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "function", "name": "shell"}, "shell"),
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "tool_search"}, "tool_search"),
        (
            {"type": "function", "name": "get_forecast", "namespace": "mcp__weather"},
            "mcp__weather__get_forecast",
        ),
        ({"type": "function", "name": "get_forecast"}, "mcp__weather__get_forecast"),
        ({"type": "function", "name": "mcp__weather__get_forecast"}, "mcp__weather__get_forecast"),
        ({"type": "function", "name": "shell", "namespace": "functions"}, "shell"),
    ],
)
def test_one_tool(choice, name):
    assert lower(choice) == ({"type": "function", "name": name}, ALL, [])


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"type": "function", "name": "nobody"}, "nobody"),
        ({"type": "function"}, "function"),
        ({"type": "function", "name": "apply_patch"}, "apply_patch"),
        ({"type": "custom", "name": "shell"}, "shell"),
        ({"type": "function", "name": "later"}, "later"),
        ({"type": "function", "name": "shell", "namespace": ["functions"]}, "shell"),
        ({"type": "web_search"}, "web_search"),
        (allowed({"type": "function", "name": "nobody"}), "nobody"),
    ],
)
def test_a_choice_of_what_cannot_be_called(choice, said):
    with pytest.raises(RequestError) as refused:
        lower(choice)
    assert refused.value.message == f"Tool choice '{said}' not found in 'tools' parameter."
    assert refused.value.param == "tool_choice"
    assert refused.value.status == 400


def test_the_search_must_be_declared_to_be_chosen():
    with pytest.raises(RequestError, match="tool_search"):
        lower({"type": "tool_search"}, tools=[TOOLS[0]])


@pytest.mark.parametrize(
    ("choice", "lowered"),
    [
        (
            allowed({"type": "custom", "name": "apply_patch"}, {"type": "tool_search"}),
            ("auto", ["apply_patch", "tool_search"], []),
        ),
        (
            allowed({"type": "function", "name": "shell"}, mode="required"),
            ("required", ["shell"], []),
        ),
        (
            allowed({"type": "function", "name": "shell"}, {"type": "web_search"}),
            ("auto", ["shell"], ["web_search"]),
        ),
        (allowed({"type": "mcp", "server_label": "docs"}), ("auto", [], ["mcp"])),
        (allowed({"type": "mcp", "server_label": "other"}), ("auto", [], [])),
        (allowed(), ("auto", [], [])),
    ],
)
def test_only_allowed_tools_are_sent_at_all(choice, lowered):
    assert lower(choice, hosted="pass") == lowered


def test_allowed_tools_may_name_a_hosted_tool_that_is_not_sent():
    choice = allowed({"type": "function", "name": "shell"}, {"type": "web_search"})
    assert lower(choice) == ("auto", ["shell"], [])


def test_a_function_called_tool_search_is_not_the_search():
    tools = [{"type": "function", "name": "tool_search"}, TOOLS[4]]
    assert lower(allowed({"type": "function", "name": "tool_search"}), tools=tools)[1] == [
        "tool_search"
    ]
    (sent,) = lower(allowed({"type": "tool_search"}), tools=tools)[1]
    assert sent.startswith("tool_search_")


def test_a_hosted_tool_can_be_demanded_where_it_is_known():
    choice = {"type": "web_search"}
    assert lower(choice, hosted="pass") == (choice, ALL, ["web_search", "mcp"])


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_without_tools_nothing_is_sent(choice):
    assert lower(choice, tools=[]) == (choice, [], [])


@pytest.mark.parametrize("choice", ["required", allowed(mode="required")])
def test_a_call_cannot_be_demanded_without_tools(choice):
    with pytest.raises(RequestError, match="required") as refused:
        lower(choice, tools=[{"type": "web_search"}])
    assert refused.value.param == "tool_choice"
