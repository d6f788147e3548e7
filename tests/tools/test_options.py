"""Rules for tools."""

import pytest

from gateway.tools.options import ToolOptions


def test_defaults_ask_nothing_of_upstream():
    options = ToolOptions()
    assert (options.deferred, options.hosted, options.invalid) == (
        "withhold",
        "drop",
        "custom_call",
    )
    assert not options.pattern
    assert not options.pattern_strict


@pytest.mark.parametrize(
    ("name", "invalid"), [("apply_patch", "function_call"), ("exec", "custom_call")]
)
def test_one_tool_may_have_its_own_rule(name, invalid):
    options = ToolOptions(invalid_by_name={"apply_patch": "function_call"})
    assert options.invalid_of(name) == invalid
