"""Codex's model catalogue for tests: one entry for each way in which Codex declares its tools."""

import json
from pathlib import Path
from typing import Any

JSON = dict[str, Any]

# Only function tools; apply_patch as a custom tool; MCP tools behind tool_search; the lite protocol.
SWITCHES: dict[str, JSON] = {
    "plain": {},
    "freeform": {"apply_patch_tool_type": "freeform"},
    "search": {"apply_patch_tool_type": "freeform", "supports_search_tool": True},
    "lite": {
        "apply_patch_tool_type": "freeform",
        "supports_search_tool": True,
        "use_responses_lite": True,
    },
}


def entry(slug: str, switches: JSON, *, context_window: int) -> JSON:
    """The fields that codex-cli 0.147 and 0.171 require, and the given switches."""
    return {
        "slug": slug,
        "display_name": slug,
        "description": "a model of a test",
        "default_reasoning_level": "medium",
        "supported_reasoning_levels": [{"effort": "medium", "description": "medium"}],
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "availability_nux": None,
        "upgrade": None,
        "base_instructions": "You are an agent under test.",
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": None,
        "truncation_policy": {"mode": "tokens", "limit": 10000},
        "context_window": context_window,
        "experimental_supported_tools": [],
        "input_modalities": ["text"],
        "supports_reasoning_summaries": True,
        "supports_parallel_tool_calls": True,
        **switches,
    }


def write_catalog(path: Path, *, context_window: int = 128000) -> None:
    models = [
        entry(slug, switches, context_window=context_window) for slug, switches in SWITCHES.items()
    ]
    path.write_text(json.dumps({"models": models}))
