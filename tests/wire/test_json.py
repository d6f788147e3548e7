"""gateway/wire/json.py: what is read can be written again, and everything else is one error."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.json import MAX_DEPTH, MalformedJSON, dumps, dumps_str, loads

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**80), max_value=2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@given(_values)
def test_what_is_written_reads_back(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert loads(dumps_str(value)) == value


@given(st.binary())
def test_any_bytes_are_json_or_malformed(data: bytes) -> None:
    try:
        value = loads(data)
    except MalformedJSON:
        return
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**70), 10**40])
def test_big_integers_stay_exact(number: int) -> None:
    assert loads(str(number)) == number
    assert dumps({"n": number}) == f'{{"n":{number}}}'.encode()


def test_key_order_is_kept() -> None:
    assert dumps_str(loads('{"b":1,"a":{"z":[],"y":null}}')) == '{"b":1,"a":{"z":[],"y":null}}'


def test_surrogate_pairs_are_one_character() -> None:
    assert loads(rb'"\ud83d\ude00"') == "😀"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{'a':1}",
        b'{"a":1} x',
        b"NaN",
        b"Infinity",
        b"1e400",
        b"1" * 5000,
        b'"a\nb"',
        b'"\xff"',
        rb'"\ud800"',
        rb'"\udc00\ud800"',
        rb'{"a":"\ud800x"}',
        "\ud800",
        '"\ud800"',
    ],
)
def test_malformed(text: bytes | str) -> None:
    with pytest.raises(MalformedJSON):
        loads(text)


def test_depth_is_bounded_at_both_sides_of_the_limit() -> None:
    deep = _nested(MAX_DEPTH)
    assert dumps_str(loads(deep)) == deep
    assert dumps_str(loads(deep.encode())) == deep
    with pytest.raises(MalformedJSON, match="deeper than 200 levels"):
        loads(_nested(MAX_DEPTH + 1))
    with pytest.raises(MalformedJSON, match="deeper than 200 levels"):
        loads('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1))


def test_a_bottomless_text_is_no_stack_overflow() -> None:
    with pytest.raises(MalformedJSON):
        loads("[" * 1_000_000)


def test_many_shallow_containers_are_fine() -> None:
    wide = [{"type": "message", "content": [{"n": n}]} for n in range(MAX_DEPTH)]
    assert loads(dumps(wide)) == wide


def test_braces_inside_strings_are_no_depth() -> None:
    text = dumps({"input": "{[" * MAX_DEPTH})
    assert loads(text) == {"input": "{[" * MAX_DEPTH}


@pytest.mark.parametrize("value", ["\ud800", {"a": object()}, {"n": 2**70, "s": "\udfff"}])
def test_what_is_not_json_is_not_written(value: Any) -> None:
    with pytest.raises(MalformedJSON):
        dumps(value)
