"""Usage of every shape that servers send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.usage import read_timings, read_usage
from tests.upstream.canonical import check_usage


def flat(usage):
    assert usage is not None
    check_usage(usage, {})
    details_in, details_out = usage["input_tokens_details"], usage["output_tokens_details"]
    return (
        usage["input_tokens"],
        details_in["cached_tokens"],
        details_in["cache_write_tokens"],
        usage["output_tokens"],
        details_out["reasoning_tokens"],
    )


CHAT = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (CHAT, (10, 0, 0, 4, 0)),
        (CHAT | {"prompt_tokens_details": None, "completion_tokens_details": None}, (10, 0, 0, 4, 0)),
        (CHAT | {"prompt_tokens_details": {"cached_tokens": 7}}, (10, 7, 0, 4, 0)),
        (CHAT | {"completion_tokens_details": {"reasoning_tokens": 3}}, (10, 0, 0, 4, 3)),
        (CHAT | {"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, (10, 6, 0, 4, 0)),
        (CHAT | {"cached_tokens": 5}, (10, 5, 0, 4, 0)),
        (CHAT | {"reasoning_tokens": 2}, (10, 0, 0, 4, 2)),
        (  # vLLM
            {
                "input_tokens": 10,
                "input_tokens_details": {
                    "cached_tokens": 2,
                    "cache_write_tokens": 8,
                    "input_tokens_per_turn": [],
                },
                "output_tokens": 4,
                "output_tokens_details": {"reasoning_tokens": 1, "tool_output_tokens": 0},
                "total_tokens": 14,
            },
            (10, 2, 8, 4, 1),
        ),
        ({"input_tokens": 10, "output_tokens": 4, "output_tokens_details": None}, (10, 0, 0, 4, 0)),
        ({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}, (0, 0, 0, 0, 0)),
        ({"input_tokens": 10.0, "output_tokens": 4}, (10, 0, 0, 4, 0)),
        ({"output_tokens": 4, "total_tokens": 14}, (10, 0, 0, 4, 0)),
        ({"input_tokens": 10, "total_tokens": 14}, (10, 0, 0, 4, 0)),
        ({"total_tokens": 14}, (14, 0, 0, 0, 0)),
        ({"input_tokens": 10, "output_tokens": 4, "total_tokens": 99}, (10, 0, 0, 4, 0)),
        ({"input_tokens": 3, "cached_tokens": 9, "reasoning_tokens": 9}, (3, 3, 0, 0, 0)),
    ],
)  # fmt: skip
def test_q12_shapes(usage, expected):
    assert flat(read_usage(usage)) == expected


@pytest.mark.parametrize(
    "usage", [None, {}, [], "10", {"input_tokens": None}, {"input_tokens": True}, {"other": 1}]
)
def test_q11_no_usage(usage):
    assert read_usage(usage) is None


@pytest.mark.parametrize("bad", [-1, "7", 2**70, float("inf"), float("nan"), True])
def test_counts_that_are_none(bad):
    assert flat(read_usage(CHAT | {"cached_tokens": bad, "completion_tokens": bad})) == (
        *(10, 0, 0, 4, 0),
    )


def test_q11_timings():
    """[rec chat-01 of llama.cpp]"""
    timings = {"cache_n": 21, "prompt_n": 18, "prompt_ms": 1.5, "predicted_n": 16}
    assert flat(read_timings(timings)) == (39, 21, 0, 16, 0)
    assert read_timings({"prompt_n": 1}) is None
    assert read_timings(None) is None


NUMBERS = st.none() | st.integers(-5, 100) | st.floats() | st.text(max_size=2)
NAMES = ["input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens"]


@given(
    top=st.dictionaries(st.sampled_from(NAMES), NUMBERS),
    details=st.dictionaries(st.sampled_from(["cached_tokens", "cache_write_tokens"]), NUMBERS),
)
def test_sums_always_agree(top, details):
    usage = read_usage({**top, "input_tokens_details": details})
    if usage is not None:
        check_usage(usage, {})
