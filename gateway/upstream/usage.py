"""Token usage of any shape becomes the complete usage object of the Responses API.

Shapes (Q11, Q12): Chat Completions, Responses with parts missing or null, llama.cpp's `timings`,
DeepSeek's cache counters, Moonshot's top-level `cached_tokens`. Clients need every field, and a
total that adds up (codex-cli 0.171).
"""

from typing import Any

from gateway.wire.json import JSON

# Where a count is found, in order of trust. A dot leads into a details object.
_INPUT = ("input_tokens", "prompt_tokens")
_OUTPUT = ("output_tokens", "completion_tokens")
_CACHED = (
    "input_tokens_details.cached_tokens",
    "prompt_tokens_details.cached_tokens",
    "prompt_cache_hit_tokens",  # DeepSeek
    "cached_tokens",  # Moonshot
)
_CACHE_WRITE = (
    "input_tokens_details.cache_write_tokens",
    "prompt_tokens_details.cache_write_tokens",
)
_REASONING = (
    "output_tokens_details.reasoning_tokens",
    "completion_tokens_details.reasoning_tokens",
    "reasoning_tokens",  # SGLang
)


def read_usage(usage: Any) -> JSON | None:
    """The Responses usage, or None when `usage` counts nothing."""
    if not isinstance(usage, dict):
        return None
    given_input, given_output = _first(usage, _INPUT), _first(usage, _OUTPUT)
    total = _count(usage.get("total_tokens"))
    if given_input is None and given_output is None and total is None:
        return None
    tokens_in, tokens_out = _both(given_input, given_output, total or 0)
    cached = min(_first(usage, _CACHED) or 0, tokens_in)
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {
            "cached_tokens": cached,
            # What was written to the cache was not read from it.
            "cache_write_tokens": min(_first(usage, _CACHE_WRITE) or 0, tokens_in - cached),
        },
        "output_tokens": tokens_out,
        "output_tokens_details": {
            "reasoning_tokens": min(_first(usage, _REASONING) or 0, tokens_out)
        },
        "total_tokens": tokens_in + tokens_out,
    }


def read_timings(timings: Any) -> JSON | None:
    """llama.cpp counts in `timings` when nobody asked for usage (Q11)."""
    if not isinstance(timings, dict):
        return None
    new, cached = _count(timings.get("prompt_n")), _count(timings.get("cache_n")) or 0
    written = _count(timings.get("predicted_n"))
    if new is None or written is None:
        return None
    return read_usage(
        {
            "input_tokens": new + cached,
            "output_tokens": written,
            "cached_tokens": cached,
        }
    )


def _both(tokens_in: int | None, tokens_out: int | None, total: int) -> tuple[int, int]:
    """A side that is missing follows from the total."""
    if tokens_in is None:
        tokens_in = max(total - (tokens_out or 0), 0)
    if tokens_out is None:
        tokens_out = max(total - tokens_in, 0)
    return tokens_in, tokens_out


def _first(usage: JSON, places: tuple[str, ...]) -> int | None:
    for place in places:
        outer, _, inner = place.rpartition(".")
        holder = usage.get(outer) if outer else usage
        count = _count(holder.get(inner)) if isinstance(holder, dict) else None
        if count is not None:
            return count
    return None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**63 else None
