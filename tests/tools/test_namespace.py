"""Taking namespaces apart."""

import pytest

from gateway.tools.names import SEARCH_KEY
from gateway.tools.namespace import flatten

F = {"type": "function", "name": "f"}
C = {"type": "custom", "name": "c"}


def namespace(name, *members):
    return {"type": "namespace", "name": name, "description": "", "tools": list(members)}


def test_members_stand_in_the_place_of_their_namespace():
    flat = list(flatten([F, namespace("ns", F, C), C], "tools"))
    assert [(d.namespace, d.name, d.path) for d in flat] == [
        (None, "f", "tools[0]"),
        ("ns", "f", "tools[1].tools[0]"),
        ("ns", "c", "tools[1].tools[1]"),
        (None, "c", "tools[2]"),
    ]
    assert flat[1].tool is F


def test_keys():
    tools = [F, namespace("functions", F), namespace("ns", F), {"type": "tool_search"}]
    keys = [d.key for d in flatten(tools, "tools")]
    assert keys == [(None, "f"), (None, "f"), ("ns", "f"), SEARCH_KEY]


def test_a_tool_without_a_name_goes_by_its_type():
    flat = list(flatten([{"type": "web_search"}, {}], "tools"))
    assert [d.name for d in flat] == ["web_search", "None"]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "shell",
        ["f"],
        {"type": "namespace", "name": "ns"},
        {"type": "namespace", "tools": [F]},
        {"type": "namespace", "name": "", "tools": [F]},
        {"type": "namespace", "name": 3, "tools": [F]},
        {"type": "namespace", "name": "ns", "tools": "f"},
        namespace("ns", None, "f", 3),
    ],
)
def test_what_is_no_tool_is_passed_over(broken):
    assert [d.tool for d in flatten([broken, F], "input[0].tools")] == [F]
