"""Regular expressions as Rust reads them: every construct against llguidance, characters from all corners."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.grammar import chars, regex
from gateway.grammar.load import Grammar
from gateway.grammar.nodes import (
    EMPTY,
    NOTHING,
    Alt,
    Chars,
    Repeat,
    Seq,
    alt,
    literal,
    nullable,
    repeat,
    seq,
)
from gateway.grammar.regex_chars import RegexError
from tests.grammar import oracle

SAMPLES = [
    *"aAbzZ059_-^]\\/.\"' \t\n\r\f\v\0\x07\x1b\x7f",
    *"éßẞſKkµμσςΩ",
    *"\x85\xa0\u1680\u2003\u2028\u200b\u200d\u0301٣Ⅷ½日ｱ😀‿ⓐ🄰",
    *"\ud7ff\ue000\U0010ffff",
]
CLASSES = [
    r".", r"(?s:.)", r"(?R).", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S",
    r"\pL", r"\PL", r"\p{Lu}", r"\p{Ll}", r"\p{Letter}", r"\p{Uppercase_Letter}", r"\p{gc=Nd}",
    r"\p{General_Category=Lm}", r"\P{M}", r"\p{N}", r"\p{Pc}", r"\p{Sc}", r"\p{Zs}", r"\p{Cc}", r"\p{Any}",
    r"\p{ascii}", r"\p{White_Space}",
    r"[[:alnum:]]", r"[[:alpha:]]", r"[[:ascii:]]", r"[[:blank:]]", r"[[:cntrl:]]", r"[[:digit:]]",
    r"[[:graph:]]", r"[[:lower:]]", r"[[:print:]]", r"[[:punct:]]", r"[[:space:]]", r"[[:upper:]]",
    r"[[:word:]]", r"[[:xdigit:]]", r"[[:^alpha:]]", r"[^[:alpha:]_]",
    r"[a-c]", r"[^a-c]", r"[]]", r"[^]]", r"[a\]]", r"[-a]", r"[a-]", r"[a\-z]", r"[\\/]", r"[\n\t\x07]",
    r"[\x{1F600}é]", r"[\d_]", r"[^\w\s]", r"[a-z&&[^b-y]]", r"[\w--\d]", r"[a-m~~h-z]", r"[[a-c][x-z]]",
    r"[^[a-c]&&b]", r"[a&&&&a]", r"[a-zé&&\w--b]", r"[&~-]", r"[a-z&&b]",
    r"(?i)a", r"(?i)[a-c]", r"(?i)[^a-c]", r"(?i)k", r"(?i)ß", r"(?i)s", r"(?i)σ", r"(?i)µ", r"(?i:Z)",
    r"(?x) [a b\ ] ", r"\a", r"\f", r"\v", r"\x41", r"\u00e9", r"\U0001F600", r"\-", r"\/", r"\"", r"\ ",
]  # fmt: skip
TEXTS = {
    r"a{2}": ["a", "aa", "aaa"],
    r"a{2,}": ["a", "aa", "aaaa"],
    r"a{0,2}b": ["b", "aab", "aaab"],
    r"a{ 1 , 2 }": ["a", "aa", "aaa", ""],
    r"a{0}b": ["b", "ab"],
    r"a{2}{3}": ["aaaaaa", "aaaaa"],
    r"a++": ["a", "aa", ""],
    r"a**?": ["", "aa"],
    r"(?:a|bc)+?d": ["ad", "bcad", "d"],
    r"(?P<x>a)(?<y>b)?": ["a", "ab", "b"],
    r"(?i)a(?-i)b": ["Ab", "AB"],
    r"(?i-s:a.)B": ["AxB", "A\nB", "axb"],
    r"((?i)a|b)c": ["Ac", "Bc", "AC"],
    r"(?U)a+": ["a", "aa"],
    r"(?-u)a|()": ["a", ""],
    r"|a": ["", "a"],
    r"()": ["", "a"],
    r"(a|)(|b)": ["", "a", "b", "ab", "ba"],
    "(?x) a b + # last": ["ab", "a b", "abb"],
    r"a}b]": ["a}b]"],
    r"^a|^b$": ["a", "b", "ab"],
    r"(^a)b|(c$)": ["ab", "c"],
    r"\Aab\z": ["ab"],
    r"^^a$$": ["a"],
    r"[^\s\S]": ["", "a"],
    r"[^\s\S]*b": ["b", "ab"],
    r"(a[^\s\S]|b)+": ["b", "a"],
    r"[^\s\S]?c": ["c"],
}


@pytest.mark.parametrize("expression", CLASSES)
def test_each_class_has_the_members_that_llguidance_gives_it(expression: str) -> None:
    grammar = Grammar("regex", expression)
    assert grammar.parser is not None
    ours = {char for char in SAMPLES if grammar.matches(char)}
    theirs = {char for char in SAMPLES if oracle.judge("regex", expression, char)[0]}
    assert ours == theirs


@pytest.mark.parametrize("expression", TEXTS)
def test_each_construct(expression: str) -> None:
    grammar = Grammar("regex", expression)
    assert grammar.parser is not None
    for text in TEXTS[expression]:
        assert grammar.matches(text) is oracle.judge("regex", expression, text)[0], text


def test_comments_end_with_the_line() -> None:
    grammar = Grammar("regex", "(?x) a # first\n  b\n+ # last")
    assert [text for text in ("ab", "abb", "a", "a b") if grammar.matches(text)] == ["ab", "abb"]


def test_half_a_pair_is_no_character() -> None:
    for expression in (".", "[^a]", r"\W", "(?s).", "[\ud800]", "\ud800"):
        assert not Grammar("regex", expression).matches("\ud800")
    assert literal("a\ud800") == NOTHING


@pytest.mark.parametrize("broken", [r"\p", r"[\x{110000}]", "(?P<a", "(?", "[[:alpha:]", "(?i"])
def test_broken_ends(broken: str) -> None:
    with pytest.raises((RegexError, regex.Unsupported)):
        regex.parse(broken)


PIECES = st.sampled_from(
    ["a", "b", "[ab]", "[^a]", "(a|bc)", "b?", "(ab)*", "a+", "c{2,3}", "(|c)", ".", r"\n"]
)


@given(st.lists(PIECES, min_size=1, max_size=5), st.text("abc\n", max_size=8))
@settings(max_examples=300, deadline=None)
def test_random_expressions_agree_with_llguidance(pieces: list[str], text: str) -> None:
    expression = "".join(pieces)
    checker = Grammar("regex", expression).checker()
    checker.feed(text)
    valid = checker.finish().kind == "valid"
    assert (valid, checker.accepted) == oracle.judge("regex", expression, text)


# ---------------------------------------------------------------------------------- sets and trees

SETS = st.lists(st.integers(0, 40), max_size=6, unique=True).map(
    lambda borders: tuple(sorted(borders))[: len(borders) // 2 * 2]
)


@given(SETS, SETS)
def test_sets_are_sets(left: chars.CharSet, right: chars.CharSet) -> None:
    one, two = ({at for at in range(50) if chars.contains(side, at)} for side in (left, right))
    for combined, expected in (
        (chars.union(left, right), one | two),
        (chars.intersect(left, right), one & two),
        (chars.minus(left, right), one - two),
        (chars.differ(left, right), one ^ two),
    ):
        assert {at for at in range(50) if chars.contains(combined, at)} == expected
        assert chars.size(combined) == len(expected)
        assert list(combined) == sorted(set(combined))
    assert chars.complement(chars.complement(left)) == chars.intersect(left, chars.ANY)


def test_representatives_cut_everywhere() -> None:
    found = chars.representatives([chars.of("b"), chars.span("d", "f")])
    assert {"\0", "b", "c", "d", "g", "\ue000"} == set(found)


def test_single() -> None:
    assert chars.single(chars.of("x")) == "x"
    assert chars.single(chars.of("xy")) is None
    assert chars.single(chars.NONE) is None


def test_trees_stay_small() -> None:
    a, b, ab = (Chars(chars.of(text)) for text in ("a", "b", "ab"))
    assert alt(a, b) == ab
    assert alt(seq(a, b), a, seq(b, a), b) == Alt((Seq((a, b)), ab, Seq((b, a))))
    assert alt(a, alt(b, EMPTY)) == Alt((ab, EMPTY))
    assert alt(EMPTY, repeat(a, 0, None)) == Repeat(a, 0, None)
    assert alt() == NOTHING
    assert alt(NOTHING, a) == a
    assert seq(a, EMPTY, seq(b, a)) == Seq((a, b, a))
    assert seq(a, NOTHING) == NOTHING
    assert repeat(a, 1, 1) == a
    assert repeat(a, 3, 0) == EMPTY
    assert repeat(EMPTY, 2, None) == EMPTY
    assert repeat(NOTHING, 0, 5) == EMPTY
    assert repeat(NOTHING, 1, None) == NOTHING
    assert repeat(repeat(a, 1, None), 0, None) == Repeat(a, 0, None)
    assert repeat(repeat(a, 1, None), 1, None) == Repeat(a, 1, None)
    assert repeat(repeat(a, 2, None), 0, None) == Repeat(Repeat(a, 2, None), 0, None)
    assert nullable(repeat(a, 0, 3))
    assert nullable(Repeat(Repeat(a, 0, None), 2, 3))
    assert not nullable(seq(a, repeat(b, 0, None)))
