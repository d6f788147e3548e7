"""The catalogue holds what both Codex versions demand."""

from gateway.codex.catalog import DEFAULT_CONTEXT_WINDOW, catalog

# codex-client.md section 6: required by 0.171; `supports_parallel_tool_calls` by 0.147 as well.
REQUIRED = {
    "slug",
    "display_name",
    "supported_reasoning_levels",
    "shell_type",
    "visibility",
    "supported_in_api",
    "priority",
    "support_verbosity",
    "truncation_policy",
    "experimental_supported_tools",
    "base_instructions",
    "supports_parallel_tool_calls",
}


def test_every_entry_has_the_required_keys_and_the_two_switches() -> None:
    entries = catalog(["a", "b"], {"b": 4096})
    assert [entry["slug"] for entry in entries] == ["a", "b"]
    assert [entry["priority"] for entry in entries] == [1, 2]
    for entry in entries:
        assert entry.keys() >= REQUIRED
        assert entry["apply_patch_tool_type"] == "freeform"
        assert entry["supports_search_tool"] is True


def test_the_context_window_is_the_servers_own_where_it_tells() -> None:
    unknown, known = catalog(["a", "b"], {"b": 4096})
    assert unknown["context_window"] == DEFAULT_CONTEXT_WINDOW
    assert known["context_window"] == 4096
