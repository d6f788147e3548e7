"""The scanner that tells a cut text from a complete and from a malformed one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.json_prefix import JSONScan, is_cut_json, json_verdict

VERDICTS = {
    "empty": ["", " \n"],
    "complete": [
        *("{}", "[]", '""', "0", "-1.5e+3", "true", "null", ' {"a": [1, {"b": null}], "c": ""} '),
        *('{"a": "line\nline\t\x00"}', r'{"a": "\d\u12"}', '{"a": "\u2028"}', "[1,2]", "[[],{}]"),
    ],
    "cut": [
        *("{", '{"', '{"a', '{"a"', '{"a":', '{"a": 1', '{"a": "x\\', '{"a": "x\\u00', '{"a":1,'),
        *("[", "[1", "[1,", "[tru", '[{"a":1}', '"', "-", "1.", "1e", "tr", "[-", '{"a": "\n'),
    ],
    "malformed": [
        *("hello", "{a", "{,", '{"a" 1', '{"a":}', '{"a":1,}', "[1,]", "[1}", "]", "{}}", "{} x"),
        *("01", "[01,", "truex", "[nope]", "'a'", "[1 2", '{"a":1]', "+1", "1,", "[-x", "nul "),
    ],
}
CASES = [(text, verdict) for verdict, texts in VERDICTS.items() for text in texts]


@pytest.mark.parametrize(("text", "verdict"), CASES)
def test_verdicts(text, verdict):
    assert json_verdict(text) == verdict
    assert is_cut_json(text) == (verdict == "cut")


@pytest.mark.parametrize(("text", "verdict"), CASES)
def test_verdicts_do_not_depend_on_cuts(text, verdict):
    by_char = JSONScan()
    for char in text:
        by_char.feed(char)
        by_char.verdict()
    assert by_char.verdict() == verdict
    for cut in range(len(text)):
        scan = JSONScan()
        scan.feed(text[:cut])
        scan.feed(text[cut:])
        assert scan.verdict() == verdict


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(value=VALUES, data=st.data())
def test_every_json_is_complete_and_every_prefix_of_an_object_is_cut(value, data):
    text = json.dumps({"input": value}, ensure_ascii=data.draw(st.booleans()))
    assert json_verdict(text) == "complete"
    cut = data.draw(st.integers(1, len(text) - 1))
    assert json_verdict(text[:cut]) == "cut"


@given(text=st.text(alphabet='{}[]":,\\0123truefalsn -.eE'))
def test_agrees_with_a_strict_parser(text):
    try:
        json.loads(text, strict=False)
    except ValueError:
        # Escapes are not looked at (Q29), all else is.
        assert json_verdict(text) != "complete" or "\\" in text
    else:
        assert json_verdict(text) == "complete"


def test_depth_is_no_recursion():
    assert json_verdict("[" * 100_000) == "cut"
    assert json_verdict("[" * 100_000 + "]" * 100_000) == "complete"
