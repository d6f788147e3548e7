"""The model catalogue: what Codex must know of a model to declare `apply_patch` and `tool_search` for it.

Without an entry Codex falls back to plain function tools (codex-cli 0.171: "Model metadata for `x` not found"). The
keys are those that 0.147 and 0.171 both demand; one key missing makes Codex refuse the whole list.
"""

from collections.abc import Mapping
from typing import Final

from gateway.wire.json import JSON

# Where the server does not tell: small enough that Codex compacts before most local servers overflow. A server that
# overflows earlier still says so, and Codex compacts then (context_length_exceeded).
DEFAULT_CONTEXT_WINDOW: Final = 32_768
# Tokens of one tool output that Codex keeps; its own catalogue has the same.
TRUNCATION_LIMIT: Final = 10_000

_INSTRUCTIONS: Final = """\
You are a coding agent. You work in the user's terminal, in the current folder, through the tools that you are given.

- Look before you change: read the files that matter, run the commands that tell you what is the case.
- Change files with `apply_patch`. A patch starts with `*** Begin Patch` and ends with `*** End Patch`; between them \
stand `*** Add File: PATH` with every line prefixed by `+`, `*** Update File: PATH` with `@@` and lines prefixed by a \
space, `-` or `+`, or `*** Delete File: PATH`. Paths are relative.
- Keep changes small and in the style of the code around them. Change nothing that was not asked for.
- When a tool fails, read what it says and mend the cause.
- When you are done, say in a few sentences what you did and what you checked.
"""

_ENTRY: Final[JSON] = {
    "description": "Served by responses-gateway.",
    "default_reasoning_level": "medium",
    "supported_reasoning_levels": [
        {"effort": "low", "description": "Answers fast"},
        {"effort": "medium", "description": "Thinks where it helps"},
        {"effort": "high", "description": "Thinks long"},
    ],
    "shell_type": "unified_exec",
    "visibility": "list",
    "supported_in_api": True,
    "availability_nux": None,
    "upgrade": None,
    "base_instructions": _INSTRUCTIONS,
    "support_verbosity": False,
    "default_verbosity": None,
    "apply_patch_tool_type": "freeform",
    "truncation_policy": {"mode": "tokens", "limit": TRUNCATION_LIMIT},
    "experimental_supported_tools": [],
    "input_modalities": ["text"],
    "supports_reasoning_summaries": True,
    "supports_parallel_tool_calls": True,
    "supports_search_tool": True,
}


def entry(model: str, priority: int, context_window: int | None) -> JSON:
    """One model's entry.

    Args:
        model: the public name.
        priority: its place in the list, 1 first.
        context_window: in tokens; None where the server does not tell.
    """
    return {
        "slug": model,
        "display_name": model,
        **_ENTRY,
        "priority": priority,
        "context_window": context_window or DEFAULT_CONTEXT_WINDOW,
    }


def catalog(models: list[str], windows: Mapping[str, int]) -> list[JSON]:
    """The entries of all models, in order."""
    return [entry(model, place, windows.get(model)) for place, model in enumerate(models, 1)]
