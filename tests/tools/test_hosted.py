"""Hosted tools."""

import pytest

from gateway.errors import RequestError
from gateway.tools import hosted


@pytest.mark.parametrize(
    ("tool", "is_hosted"),
    [
        ({"type": "function"}, False),
        ({"type": "custom"}, False),
        ({"type": "namespace"}, False),
        ({"type": "tool_search", "execution": "client"}, False),
        ({"type": "tool_search"}, True),
        ({"type": "tool_search", "execution": None}, True),
        ({"type": "tool_search", "execution": "server"}, True),
        ({"type": "web_search"}, True),
        ({"type": "mcp", "server_label": "x"}, True),
        ({"type": "not invented yet"}, True),
        ({}, True),
    ],
)
def test_who_would_run_it(tool, is_hosted):
    assert hosted.is_hosted(tool) is is_hosted


def test_dropped():
    assert hosted.lower_tool({"type": "web_search"}, "tools[0]", "drop") is None


def test_passed_without_defer_loading():
    tool = {"type": "mcp", "server_label": "x", "defer_loading": True}
    assert hosted.lower_tool(tool, "tools[0]", "pass") == {"type": "mcp", "server_label": "x"}
    assert tool["defer_loading"] is True


def test_refused_by_name():
    with pytest.raises(RequestError) as refused:
        hosted.lower_tool({"type": "web_search"}, "tools[4]", "reject")
    assert refused.value.status == 400
    assert refused.value.param == "tools[4]"
    assert refused.value.code == "unsupported_parameter"
    assert "web_search" in refused.value.message
