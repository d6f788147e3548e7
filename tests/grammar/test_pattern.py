"""Patterns over JSON-escaped text: they admit what the grammar accepts, and nothing that it refuses."""

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.grammar import chars, pattern_text
from gateway.grammar import pattern as patterns
from gateway.grammar.load import Grammar, load_grammar
from gateway.grammar.nodes import Alt, Call, Chars, Node, Repeat, Seq, Token
from gateway.grammar.pattern import MAX_PATTERN_BYTES, pattern_for
from gateway.grammar.rows import Parser
from tests.grammar import oracle
from tests.grammar.test_check import PATCH, PATCHES


def escaped(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def admits(pattern: str, raw: str) -> bool:
    """Python's and llguidance's engines must read the pattern alike."""
    found = re.fullmatch(pattern, raw) is not None
    assert oracle.judge("regex", pattern, raw)[0] is found
    return found


def made(definition: str, syntax: Any = "lark") -> str:
    result = pattern_for(Grammar(syntax, definition))
    assert result.pattern is not None, result.reason
    return result.pattern


CODEX_PATTERN = (
    r"^\*\*\* Begin Patch\\n(\*\*\* Add File: L+\\n(\+L*\\n)+|\*\*\* Delete File: L+\\n|\*\*\* Update File: L+\\n"
    r"(\*\*\* Move to: L+\\n)?(((@@|@@ L+)\\n|[ +-]L*\\n)+(\*\*\* End of File\\n)?)?)+\*\*\* End Patch(\\n)?$"
)
LINE_CHAR = r'([^\x00-\x1f"\\]|\\[btfr"/\\]|\\u000[0-7BEFbef]|\\u001[0-9A-Fa-f])'


def test_codex_patch_grammar() -> None:
    pattern = pattern_for(PATCH).pattern
    assert pattern == CODEX_PATTERN.replace("L", LINE_CHAR)
    assert len(pattern.encode()) < 2048
    for row in PATCHES:
        assert admits(pattern, escaped(row["text"])) is row["grammar"], row["name"]


@pytest.mark.parametrize("name", ["apply_patch_environment", "exec"])
def test_other_codex_grammars(name: str) -> None:
    pattern = made(oracle.CODEX[name])
    assert len(pattern.encode()) < 2048
    grammar = load_grammar("lark", oracle.CODEX[name])
    for text in ("x", "// @exec: {}\r\nawait y()", *(row["text"] for row in PATCHES)):
        assert admits(pattern, escaped(text)) is grammar.matches(text)


@pytest.mark.parametrize("case", oracle.GRAMMARS, ids=lambda case: case["name"])
def test_each_grammar_of_the_collection(case: dict[str, Any]) -> None:
    grammar = Grammar(case.get("syntax", "lark"), case["definition"])
    result = pattern_for(grammar)
    if result.pattern is None:
        assert result.reason
        return
    for text in case["accepted"]:
        # What is ignored around the text is sometimes valid, and always needless.
        assert admits(result.pattern, escaped(text)) or (
            text != text.strip(" ") and "%ignore" in case["definition"]
        )
    for text in case["refused"]:
        assert not admits(result.pattern, escaped(text))


def test_most_regular_grammars_have_one() -> None:
    without = {
        case["name"]: pattern_for(Grammar(case.get("syntax", "lark"), case["definition"])).reason
        for case in oracle.GRAMMARS
        if pattern_for(Grammar(case.get("syntax", "lark"), case["definition"])).pattern is None
    }
    reasons = sorted(set(without.values()))
    assert len(without) < 28, without
    assert all(reasons)


def value_pattern(grammar: Grammar) -> str | None:
    return pattern_for(grammar, over="value").pattern


@pytest.mark.parametrize("case", oracle.GRAMMARS, ids=lambda case: case["name"])
def test_over_the_value_as_json_schema_says(case: dict[str, Any]) -> None:
    """llguidance's JSON schemas are the referee: their `pattern` is over the value."""
    grammar = Grammar(case.get("syntax", "lark"), case["definition"])
    pattern = value_pattern(grammar)
    assert (pattern is None) == (pattern_for(grammar).pattern is None)
    if pattern is None:
        return
    for text in case["accepted"] + case["refused"]:
        expected = re.fullmatch(pattern, text) is not None
        assert not expected or grammar.matches(text)
        assert oracle.schema_admits(pattern, text) is expected, text


def test_codex_over_the_value() -> None:
    pattern = value_pattern(PATCH)
    assert pattern == (
        r"^\*\*\* Begin Patch\n(\*\*\* Add File: L+\n(\+L*\n)+|\*\*\* Delete File: L+\n|"
        r"\*\*\* Update File: L+\n(\*\*\* Move to: L+\n)?"
        r"(((@@|@@ L+)\n|[ +-]L*\n)+(\*\*\* End of File\n)?)?)+\*\*\* End Patch\n?$"
    ).replace("L", r"[^\n]")
    for row in PATCHES:
        assert oracle.schema_admits(pattern, row["text"]) is row["grammar"]


WRITTEN = [
    # definition, the whole pattern
    ('start: "a.b*c?(d)[e]{f}|^$"', r"^a\.b\*c\?\(d\)\[e\]\{f\}\|\^\$$"),
    (r'start: "a\"b\\c\n\t/"', r'^a\\"b\\\\c\\n\\t/$'),
    (r'start: "\u0000\u001b\u007f"', "^\\\\u0000\\\\u001[Bb]\x7f$"),
    ("start: /[a-c]x?/", "^[a-c]x?$"),
    ("start: /[ab]{2,}[c]{3}d{1,4}/", "^[ab]{2,}c{3}d{1,4}$"),
    (r"start: /[-^]/ /[\]\[a^-]/", r"^[-^][\[\]a^-]$"),
    (r"start: /[\/a]/", r"^([/a]|\\/)$"),
    (r"start: /[\n]+/", r"^(\\n)+$"),
    (r"start: /[\n\r\x01\x02]/", r"^(\\[nr]|\\u000[12])$"),
    (
        r"start: /[^a]/",
        '^([^\\x00-\\x1f"\\\\a]|\\\\[btnfr"/\\\\]|\\\\u000[0-7BEFbef]|\\\\u001[0-9A-Fa-f])$',
    ),
    (r"start: /[^\x00-\x1f\"\\\/]/", '^[^\\x00-\\x1f"/\\\\]$'),
    ("start: /[а-я→]/", "^[а-я→]$"),
    ("start: (/[ab]/{2}){3}", "^([ab]{2}){3}$"),
    ('start: "" | "x" | "yz"', "^(x|yz)?$"),
    ('start: "x" ("" | "y")', "^xy?$"),
    ("start: /(ab|c)*|d/", "^((ab|c)*|d)$"),
    ('start: ""', "^$"),
    ('start: list\nlist: list "," /[a-z]/ | /[a-z]/', "^[a-z](,[a-z])*$"),
    ('start: path\npath: /[a-z]/ ("/" path)?', "^([a-z]/)*[a-z]$"),
    ('start: "a" "b"*\n%ignore / +/', "^a( *b)*$"),
    ('start: "a"? ("b" | "c")\n%ignore " "', "^(a( *b| *c)|[bc])$"),
    ('start: x*\nx: "a" | "b" "c"\n%ignore " "', "^((a|b *c)( *a| *b *c)*)?$"),
]


@pytest.mark.parametrize(("definition", "expected"), WRITTEN)
def test_how_it_is_written(definition: str, expected: str) -> None:
    pattern = made(definition)
    assert sorted(pattern) == sorted(expected)
    assert pattern == expected
    assert oracle.loads("regex", pattern)


REFUSED = [
    ('start: "(" start ")" | "x"', "recursive"),
    ("start: /a(?=b)/", "lookahead"),
    ('start: ("ab" | "a") "bc"', "greedy"),
    ('start: /.*/ "x"', "greedy"),
    ('start: A? "b"\nA: /b*/', "greedy"),
    ("start: /" + r"\w" * 3 + "/", "bytes"),
    ('start: "' + "a" * (MAX_PATTERN_BYTES + 1) + '"', "bytes"),
    ("start: /(.*a){9}.{40}/", "to prove"),
    (
        "\n".join(["start: r0", *(f"r{at}: r{at + 1} r{at + 1}" for at in range(40)), 'r40: "x"']),
        "too large",
    ),
]


@pytest.mark.parametrize(("definition", "reason"), REFUSED)
def test_what_has_none_says_why(definition: str, reason: str) -> None:
    result = pattern_for(Grammar("lark", definition))
    assert result.pattern is None
    assert reason in result.reason


def test_the_proof_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_PROOF_STEPS", 100)
    result = pattern_for(Grammar("lark", oracle.CODEX["apply_patch"]))
    assert result == (None, "the grammar is too large to prove its pattern")
    monkeypatch.setattr(patterns, "MAX_PROOF_FUEL", 100)
    result = pattern_for(Grammar("lark", oracle.CODEX["apply_patch"]))
    assert result == (None, "too costly to prove")


def test_an_empty_text_may_be_what_differs() -> None:
    """Nothing but the empty text: the tree and the rows agree on it."""
    assert made("start: a*\na: /x/?") == "^x*$"
    assert made("start: /(x?)+/") == "^x*$"


def test_only_trees_of_characters_are_written() -> None:
    written = patterns._Written(PATCH.parser)
    for read in (written.weight, written.later, written.head):
        with pytest.raises(AssertionError):
            read(Chars((97, 98)))
    for node in (Token(0), Call("x")):
        with pytest.raises(AssertionError):
            pattern_text._emit(node, 0, pattern_text._emit_value)
    assert pattern_text._emit(Chars((97, 98)), 2, pattern_text._emit_value) == "a"


ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\n": "\\n",
    "\t": "\\t",
    "\x01": "\\u0001",
    "\x1f": "\\u001F",
}


@pytest.mark.parametrize("char", [*ESCAPES, "a", "é", "😀", " ", "\x7f"])
def test_every_way_of_writing_a_character(char: str) -> None:
    """What JSON writers do is admitted, what is no JSON is not."""
    pattern = made(r"start: /[\s\S]/")
    assert admits(pattern, escaped(char))
    assert admits(pattern, ESCAPES.get(char, char))
    assert not admits(pattern, f"\\{char}") or char in '"\\/'
    assert admits(pattern, char) is (char >= " " and char not in '"\\')
    without = made(f"start: /[^\\x{ord(char):02x}]/" if char < "\x80" else f"start: /[^{char}]/")
    assert not admits(without, escaped(char))
    assert not admits(without, ESCAPES.get(char, char))


# --------------------------------------------------------------------------------------- any grammar

ALPHABET = 'ab"\\\n\x01/é-^] '
CHARACTERS = st.sampled_from(
    ["a", "b", "[ab]", '[^a"]', '["]', r"[\\]", r"\n", r"[^\n]", r"[\x01\/]", "é", ".", r"[\-\^\]]"]
)


@st.composite
def lexemes(draw: st.DrawFn) -> str:
    parts = draw(st.lists(CHARACTERS, min_size=1, max_size=3))
    signs = draw(
        st.lists(
            st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,2}", "{2,}"]), min_size=3, max_size=3
        )
    )
    body = "".join(part + sign for part, sign in zip(parts, signs, strict=False))
    return draw(st.sampled_from([f"/{body}/", f"/({body}|b)/", f"/({body})+/"]))


@st.composite
def grammars(draw: st.DrawFn) -> str:
    """A rule of a few lexemes under all operators, and another that it calls."""
    atoms = draw(st.lists(lexemes(), min_size=2, max_size=4))
    signs = st.sampled_from(["", "?", "*", "+", "~2", "~0..2"])
    options = " | ".join(
        " ".join(f"{atom}{draw(signs)}" for atom in [*atoms[at:], "x"])
        for at in range(draw(st.integers(1, 2)))
    )
    ignored = draw(st.sampled_from(["", "", "\n%ignore / /"]))
    return f"start: {options}\nx: {draw(lexemes())} | ({draw(lexemes())} {draw(lexemes())}){draw(signs)}{ignored}"


@st.composite
def parted_grammars(draw: st.DrawFn) -> str:
    """Lexemes with marks between them that none of them holds, so that greed does no harm."""
    shut = {".": "[^;|]", '[^a"]': '[^a";| ]', r"[^\n]": r"[^\n;|]"}

    def part() -> str:
        found = draw(lexemes())
        for open_class, closed in shut.items():
            found = found.replace(open_class, closed)
        return f'{found} "{draw(st.sampled_from(";|"))}"'

    signs = st.sampled_from(["", "?", "*", "+", "~2", "~0..2"])
    parts = [f"({part()}){draw(signs)}" for _ in range(draw(st.integers(1, 3)))]
    ignored = draw(st.sampled_from(["", "", "\n%ignore /~/"]))
    return f"start: {' '.join(parts)} {part()} | x {part()}\nx: ({part()} | {part()}){draw(signs)}{ignored}"


def drawn(data: st.DataObject, parser: Parser, node: Node) -> str:
    """A text of the grammar, by its rules and lexemes; what is ignored stands between some of them."""
    match node:
        case Chars(borders):
            known = [char for char in ALPHABET if chars.contains(borders, ord(char))]
            return data.draw(st.sampled_from(known or [chr(borders[0])]))
        case Token(index):
            text = drawn(data, parser, parser.rules.lexemes[index].tree)
            between = parser.rules.ignored is not None and data.draw(st.booleans())
            return ("\0" if between else "") + text
        case Call(rule):
            return drawn(data, parser, parser.rules.rules[rule])
        case Seq(parts):
            return "".join(drawn(data, parser, part) for part in parts)
        case Alt(options):
            return drawn(data, parser, data.draw(st.sampled_from(options)))
        case Repeat(body, least, most):
            count = data.draw(st.integers(least, least + 2 if most is None else most))
            return "".join(drawn(data, parser, body) for _ in range(count))


@given(parted_grammars(), st.data())
@settings(max_examples=120, deadline=None)
def test_a_pattern_admits_what_the_grammar_accepts(definition: str, data: st.DataObject) -> None:
    grammar = Grammar("lark", definition)
    pattern = pattern_for(grammar).pattern
    assume(pattern is not None)
    assert pattern is not None
    assert grammar.parser is not None
    text = drawn(data, grammar.parser, grammar.parser.rules.rules["start"])
    text = text.removeprefix("\0").replace("\0", "~")  # nothing is ignored in front
    assert grammar.matches(text)
    assert oracle.judge("lark", definition, text)[0]
    assert admits(pattern, escaped(text))
    place = data.draw(st.integers(0, len(text)))
    change = data.draw(st.text(ALPHABET + ";|~", max_size=2))
    mutated = text[:place] + change + text[place + data.draw(st.integers(0, 2)) :]
    checker = grammar.checker()
    checker.feed(mutated)
    accepted = checker.finish().kind == "valid"
    assert (accepted, checker.accepted) == oracle.judge("lark", definition, mutated)
    if admits(pattern, escaped(mutated)):
        assert accepted
    elif accepted:
        assert mutated.endswith("~"), (
            "only what is ignored at the very end is valid and not admitted"
        )


@given(grammars(), st.text(ALPHABET, max_size=8))
@settings(max_examples=300, deadline=None)
def test_random_grammars_agree_with_llguidance(definition: str, text: str) -> None:
    checker = Grammar("lark", definition).checker()
    checker.feed(text)
    valid = checker.finish().kind == "valid"
    assert (valid, checker.accepted) == oracle.judge("lark", definition, text)
