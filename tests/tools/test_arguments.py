"""The arguments reader: the same text at every split, nothing lost, nothing guessed."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.arguments import InputReader, StringReader, Way, read_input, unwrap_arguments

# arguments as a model wrote them -> the input of the custom tool
CASES = {
    # the form that was asked for
    '{"input": "a b"}': "a b",
    '{"input":""}': "",
    ' {\n "input" : "x"\n}\n': "x",
    r'{"input": "line\nnext\ttab \"quoted\" back\\slash \/ \b\f\r"}': (
        'line\nnext\ttab "quoted" back\\slash / \b\f\r'
    ),
    r'{"input": "\u00e9 \u0000 \u4e2d"}': "é \0 中",
    r'{"input": "\ud83d\ude00"}': "😀",
    r'{"input": "\uD83D\uDE00\\"}': "😀\\",
    '{"input": "raw\nnewline\tand tab"}': "raw\nnewline\tand tab",
    # halves of surrogate pairs stay the escapes that they are
    r'{"input": "\ud83d"}': r"\ud83d",
    r'{"input": "\ud83d!"}': r"\ud83d!",
    r'{"input": "\ude00"}': r"\ude00",
    r'{"input": "\ud83d\n"}': "\\ud83d\n",
    r'{"input": "\ud83d\u0041"}': r"\ud83d" + "A",
    r'{"input": "\ud83d\ud83d\ude00"}': r"\ud83d" + "😀",
    r'{"input": "\ud83d\uzzzz"}': r"\ud83d\uzzzz",
    # escapes that JSON does not know keep their backslash
    r'{"input": "\d+ \. \u12 \u12g4 \ux"}': r"\d+ \. \u12 \u12g4 \ux",
    '{"input": "\\\n"}': "\\\n",
    # behind the text
    '{"input": "a", "other": 1}': "a",
    '{"input": "a", "other": {"b": [1, "}"]}}': "a",
    '{"input": "a", "raw": "b\nc"}': "a",
    '{"input": "say "hi" now"}': 'say "hi" now"}',
    '{"input": "a"': 'a"',
    '{"input": "a"} and words': 'a"} and words',
    '{"input": "a"}}': 'a"}}',
    # the end that never came
    '{"input": "a': "a",
    '{"input": "a\\': "a\\",
    '{"input": "a\\u00': "a\\u00",
    '{"input": "a\\ud83d': "a\\ud83d",
    '{"input": "a\\ud83d\\u': "a\\ud83d\\u",
    '{"inp': '{"inp',
    '{"input" : ': '{"input" : ',
    # another key, whatever it is called
    '{"patch": "a\\nb"}': "a\nb",
    '{ "co\\"de" : "x" } ': "x",
    '{"in\\u0070ut": "x"}': "x",
    '{"inputs": "x"}': "x",
    '{"": "x"}': "x",
    '{"patch": "raw\ntext \\d"}': "raw\ntext \\d",
    '{"patch": "\\ud800"}': "\\ud800",
    # `input` behind another key
    '{"a": 1, "input": "x"}': "x",
    '{"a": "1", "input": "x\ny"}': "x\ny",
    # everything else: as the model wrote it
    '{"a": "1", "b": "2"}': '{"a": "1", "b": "2"}',
    '{"a": 1, "input": 2}': '{"a": 1, "input": 2}',
    '{"a": 1, "input": "\\ud800"}': '{"a": 1, "input": "\\ud800"}',
    '{"input": 5}': '{"input": 5}',
    '{"input": null}': '{"input": null}',
    '{"input": {"text": "x"}}': '{"input": {"text": "x"}}',
    '{"patch": "say "hi""}': '{"patch": "say "hi""}',
    '{"patch": 1}': '{"patch": 1}',
    "{}": "{}",
    "{": "{",
    "{not json": "{not json",
    '{"a": ' + "[" * 100_000: '{"a": ' + "[" * 100_000,
    "12": "12",
    "-1.5e3": "-1.5e3",
    "null": "null",
    '["a"]': '["a"]',
    "*** Begin Patch\n*** End Patch": "*** Begin Patch\n*** End Patch",
    " text": " text",
    "": "",
    "  ": "  ",
    # a JSON string
    '"a\\nb"': "a\nb",
    ' "a" ': "a",
    '""': "",
    '"a" b': 'a" b',
    '"a': "a",
}
SHORT = [text for text in CASES if len(text) < 200]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    at = [0, *sorted(cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(at)]


def read(pieces: list[str]) -> str:
    reader = InputReader()
    deltas = [reader.feed(piece) for piece in pieces]
    return "".join([*deltas, reader.finish()])


@pytest.mark.parametrize(("arguments", "text"), CASES.items(), ids=lambda v: repr(v)[:40])
def test_arguments_give_their_text(arguments, text):
    assert read_input(arguments) == text


@pytest.mark.parametrize("arguments", SHORT)
def test_every_cut_in_two_and_in_single_characters_gives_the_same_text(arguments):
    for cut in range(len(arguments) + 1):
        assert read([arguments[:cut], arguments[cut:]]) == CASES[arguments]
    assert read(list(arguments)) == CASES[arguments]


WRITTEN = st.text(alphabet="{}[]\":,\\u0123dDcC89aAbfinputé\n\t 'x😀", max_size=40)
OPENINGS = st.sampled_from(
    ["", '{"input": "', '{"input":"', '"', '{"patch": "', '{"a":1,"input":"']
)
ENDINGS = st.sampled_from(["", '"}', '"', "}", '" }\n'])


@st.composite
def model_texts(draw):
    text = draw(OPENINGS) + draw(WRITTEN) + draw(ENDINGS)
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=8))
    return text, pieces_of(text, cuts)


@given(model_texts())
def test_any_split_of_anything_concatenates_to_the_final_input(case):
    text, pieces = case
    assert "".join(pieces) == text
    assert read(pieces) == read_input(text)


@given(st.text(), st.booleans(), st.sampled_from(["input", "patch", "x\ny"]))
def test_any_text_comes_back_from_its_json(text, ascii_only, key):
    assert read_input(json.dumps({key: text}, ensure_ascii=ascii_only)) == text
    assert read_input(json.dumps(text, ensure_ascii=ascii_only)) == text


@given(model_texts())
def test_the_text_can_always_be_sent(case):
    read_input(case[0]).encode("utf-8")


def test_text_leaves_as_it_comes():
    reader = InputReader()
    fed = ['{"inp', 'ut": ', '"*** Be', "gin\\", "nPatch\\ud8", "3d", "\\ude00", '"', "}"]
    assert [reader.feed(piece) for piece in fed] == [
        "",
        "",
        "*** Be",
        "gin",
        "\nPatch",
        "",
        "😀",
        "",
        "",
    ]
    assert reader.finish() == ""
    assert reader.way is Way.AFTER
    assert not reader.is_cut
    assert not reader.is_remainder_kept


def test_held_arguments_say_nothing_until_the_end():
    reader = InputReader()
    assert [reader.feed(piece) for piece in ('{"pa', 'tch": "a', '"}')] == ["", "", ""]
    assert reader.way is Way.HELD
    assert reader.finish() == "a"


def test_bare_text_leaves_at_once():
    reader = InputReader()
    assert [reader.feed(piece) for piece in (" ", "print(", "1)")] == ["", " print(", "1)"]
    assert reader.way is Way.VERBATIM
    assert reader.finish() == ""


def test_a_remainder_is_marked():
    reader = InputReader()
    assert reader.feed('{"input": "a "b" c"}') == "a "
    assert reader.finish() == '"b" c"}'
    assert reader.is_remainder_kept


@pytest.mark.parametrize(
    ("fed", "is_cut"),
    [('{"input": "a', True), ('{"input": "a"', False), ('{"patch": "a', False), ("text", False)],
)
def test_a_text_without_its_end_is_cut(fed, is_cut):
    reader = InputReader()
    reader.feed(fed)
    assert reader.is_cut is is_cut


def test_string_reader_keeps_a_begun_escape_back():
    reader = StringReader()
    assert reader.feed("plain") == ("plain", "")
    assert reader.feed("a\\u00") == ("a", "")
    assert reader.pending == "\\u00"
    assert reader.feed('41"rest') == ("A", "rest")
    assert reader.closed
    assert reader.pending == ""


def test_what_begins_otherwise_is_unwrapped_by_the_standard_rules():
    assert unwrap_arguments('{"only": "x"}') == "x"
    assert unwrap_arguments("[1]") == "[1]"
