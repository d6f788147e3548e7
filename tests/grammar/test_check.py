"""Checking as the text streams: verdicts and their places, any split alike, and costs that stay bounded."""

import json
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.grammar import automaton, rows
from gateway.grammar.check import MAX_FUEL, MAX_FUEL_PER_CHAR, GrammarChecker, Verdict
from gateway.grammar.load import Grammar, load_grammar
from tests.grammar import oracle

PATCHES: list[dict[str, Any]] = json.loads((oracle.HERE / "patches.json").read_text("utf-8"))
PATCH = load_grammar("lark", oracle.CODEX["apply_patch"])
JSON_GRAMMAR = next(case["definition"] for case in oracle.GRAMMARS if case["name"] == "JSON")
HEAD = "*** Begin Patch\n*** Add File: a.txt\n"


def check(grammar: Grammar, *pieces: str) -> tuple[Verdict, int, bool]:
    checker = grammar.checker()
    for piece in pieces:
        checker.feed(piece)
    return checker.finish(), checker.accepted, checker.ok_prefix


@pytest.mark.parametrize("row", PATCHES, ids=lambda row: row["name"])
def test_the_patch_acceptance_table(row: dict[str, Any]) -> None:
    """codex-cli 0.171: what its client applies, what its grammar accepts (recording 27)."""
    verdict, accepted, _ = check(PATCH, row["text"])
    assert (verdict.kind == "valid") is row["grammar"]
    assert oracle.judge("lark", oracle.CODEX["apply_patch"], row["text"]) == (
        row["grammar"],
        accepted,
    )
    # The client is laxer than the grammar, save for a move that changes nothing.
    assert row["client"] or not row["grammar"] or row["name"] == "update_move_only"


def test_the_variant_with_an_environment() -> None:
    row = next(row for row in PATCHES if row["name"] == "envid")
    definition = oracle.CODEX["apply_patch_environment"]
    assert load_grammar("lark", definition).matches(row["text"])
    assert oracle.judge("lark", definition, row["text"])[0]
    assert not PATCH.matches(row["text"])


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("text('hi')", True),
        ('// @exec: {"yield_time_ms": 1}\nawait x()\n', True),
        ("  // @exec:\r\nx", True),
        ("// @exec: only a pragma", True),  # a source like any other
        ("", False),
    ],
)
def test_code_mode(text: str, valid: bool) -> None:
    assert load_grammar("lark", oracle.CODEX["exec"]).matches(text) is valid
    assert oracle.judge("lark", oracle.CODEX["exec"], text)[0] is valid


VERDICTS = [
    ("*** Begin Patch ***\n", 1, 16, "LF", "' '"),
    ("", 1, 1, '"*** Begin Patch"', "the end of the text"),
    (HEAD + "hello", 3, 1, '"+"', "'h'"),
    (HEAD + "+é日😀\n*", 4, 2, '"*** End Patch"', "the end of the text"),
    (HEAD + "+a\nx", 4, 1, '"*** End Patch" or "*** Add File: " or "*** Delete', "'x'"),
    (HEAD + "+a\n*** End Patch\n\n", 5, 1, "the end of the text", "'\\n'"),
    (HEAD + "+a\n*** End Patchx", 4, 14, "LF or the end of the text", "'x'"),
]


@pytest.mark.parametrize(("text", "line", "column", "expected", "found"), VERDICTS)
def test_an_invalid_text_is_told_where_and_why(
    text: str, line: int, column: int, expected: str, found: str
) -> None:
    verdict, accepted, ok_prefix = check(PATCH, text)
    assert (verdict.kind, verdict.line, verdict.column) == ("invalid", line, column)
    assert expected in verdict.expected
    assert verdict.reason.startswith(f"line {line}, column {column}: expected ")
    assert verdict.reason.endswith(f", found {found}")
    assert ok_prefix is (found == "the end of the text")
    assert accepted == len("".join(text.splitlines(keepends=True)[: line - 1])) + column - 1


def test_many_expected_names_are_cut() -> None:
    grammar = load_grammar("lark", "start: " + " | ".join(f'"w{at}"' for at in range(20)) + " | ")
    verdict, _, _ = check(grammar, "x")
    assert verdict.expected.endswith('"w7" or 12 others or the end of the text')


def test_nothing_can_be_expected() -> None:
    verdict, _, _ = check(load_grammar("lark", "start: a\na: a"), "x")
    assert verdict.expected == "nothing"


def test_what_is_ignored_is_not_expected() -> None:
    verdict, _, _ = check(load_grammar("lark", 'start: "a" "b"\n%ignore " "'), "a x")
    assert verdict.expected == '"b"'


def test_the_verdict_holds_whatever_follows() -> None:
    checker = PATCH.checker()
    checker.feed("x")
    first = checker.finish()
    checker.feed("*** Begin Patch\n")
    assert checker.finish() == first
    assert (checker.accepted, checker.ok_prefix) == (0, False)


def test_ok_prefix_turns_at_the_first_bad_character() -> None:
    checker = PATCH.checker()
    seen = []
    for char in "*** Begin Patch ***":
        checker.feed(char)
        seen.append(checker.ok_prefix)
    assert seen == [True] * 15 + [False] * 4


# ------------------------------------------------------------------------------------------- splits

SPLIT_TEXTS = [
    *((PATCH, row["text"]) for row in PATCHES),
    *(
        (Grammar(case.get("syntax", "lark"), case["definition"]), text)
        for case in oracle.GRAMMARS
        for text in case["accepted"] + case["refused"]
    ),
]


def test_every_split_in_two_and_by_character_gives_the_same() -> None:
    for grammar, text in SPLIT_TEXTS:
        whole = check(grammar, text)
        assert check(grammar, *text) == whole
        for cut in range(len(text) + 1):
            assert check(grammar, text[:cut], "", text[cut:]) == whole


def test_every_split_in_three_of_one_patch() -> None:
    text = HEAD + "+x\n*** End Patch !"
    whole = check(PATCH, text)
    for one, two in combinations(range(len(text)), 2):
        assert check(PATCH, text[:one], text[one:two], text[two:]) == whole


LINES = st.sampled_from(
    ["*** Begin Patch", "*** End Patch", "*** Add File: é", "*** Update File: b", "*** Move to: c",
     "*** Delete File: d", "@@", "@@ def", "+a", "-b", " c", "", "*** End of File", "x", "\r"]
)  # fmt: skip


@given(st.lists(LINES, max_size=8), st.booleans(), st.lists(st.integers(0, 80), max_size=4))
@settings(max_examples=300, deadline=None)
def test_random_patches_agree_with_llguidance(
    lines: list[str], framed: bool, cuts: list[int]
) -> None:
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"] if framed else lines)
    whole = check(PATCH, text)
    assert (whole[0].kind == "valid", whole[1]) == oracle.judge(
        "lark", oracle.CODEX["apply_patch"], text
    )
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert check(PATCH, *pieces) == whole


NESTED = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(NESTED, st.integers(0, 50), st.sampled_from(["", "x", ",", "]", "}"]))
@settings(max_examples=200, deadline=None)
def test_random_json_agrees_with_llguidance(value: object, at: int, extra: str) -> None:
    text = json.dumps(value)
    text = text[:at] + extra + text[at:]
    verdict, accepted, _ = check(load_grammar("lark", JSON_GRAMMAR), text)
    assert (verdict.kind == "valid", accepted) == oracle.judge("lark", JSON_GRAMMAR, text)


# --------------------------------------------------------------------------------------------- costs


def spent(grammar: Grammar, *pieces: str) -> tuple[Verdict, int]:
    """The verdict, and the automaton states visited for it."""
    checker = grammar.checker()
    assert isinstance(checker, GrammarChecker)
    for piece in pieces:
        checker.feed(piece)
    return checker.finish(), MAX_FUEL - checker._fuel


def test_a_large_patch_costs_no_more_than_a_small_one() -> None:
    grammar = Grammar("lark", oracle.CODEX["apply_patch"])
    text = HEAD + "+some line é\n" * 800_000 + "*** End Patch"
    assert len(text) > 10_000_000
    verdict, cost = spent(grammar, text)
    assert verdict.kind == "valid"
    assert cost < 3_000
    assert spent(grammar, text[:1_000_000])[1] <= 0


@pytest.mark.parametrize(
    "expression", ["(a+)+b", "(a|a)*b", "(a|aa)+$", "(.*a){20}", "((a*)*)*b", "(a?){50}a{50}"]
)
def test_backtracking_cannot_be_provoked(expression: str) -> None:
    grammar = Grammar("regex", expression)
    verdict, cost = spent(grammar, "a" * 100_000)
    assert verdict.kind in ("valid", "invalid")
    assert cost < 200_000


def test_an_automaton_that_explodes_is_given_up_and_no_split_matters() -> None:
    grammar = Grammar("regex", ".*a.{3000}")
    text = "ab" * 20_000
    found = []
    for size in (len(text), 4, 1, 997):
        grammar = Grammar("regex", ".*a.{3000}")
        found.append(check(grammar, *(text[at : at + size] for at in range(0, len(text), size))))
    verdict, accepted, ok_prefix = found[0]
    assert found == [found[0]] * 4
    assert (verdict.kind, ok_prefix) == ("unchecked", True)
    assert "too much" in verdict.reason
    assert 500 < accepted < 5_000


def test_text_earns_fuel() -> None:
    """A costly text goes on as long as its length pays for it."""
    grammar = Grammar("regex", "[^a]*")
    text = "".join(map(chr, range(0x100, 0x3000))) * 2
    checker = grammar.checker()
    assert isinstance(checker, GrammarChecker)
    checker._fuel = 100
    checker.feed(text)
    assert checker.finish().kind == "valid"
    poor = Grammar("regex", "(.*a){9}.*").checker()
    assert isinstance(poor, GrammarChecker)
    poor._fuel = 0
    poor.feed("b" * 10)
    assert poor.finish().kind == "unchecked"


def test_a_recursive_grammar_earns_fuel_between_lexemes() -> None:
    checker = Grammar("lark", JSON_GRAMMAR).checker()
    assert isinstance(checker, GrammarChecker)
    checker._fuel = 500
    checker.feed(json.dumps([{"a": 1, "long text pays": "x" * 200}] * 50))
    assert checker.finish().kind == "valid"
    assert MAX_FUEL_PER_CHAR > 4 * 8


@pytest.mark.parametrize(
    "definition",
    [
        'start: a\na: "x" b | "x"\nb: "x" a | "x"',
        'start: a\na: b b | "x"\nb: a a | "x"',
        'start: a b\na: "x" a | "x" b\nb: "x" b | "x" a | "x"',
    ],
)
def test_an_ambiguous_grammar_is_given_up(definition: str) -> None:
    verdict, _, _ = check(Grammar("lark", definition), "x" * 20_000)
    assert verdict.kind == "unchecked"


def test_nesting_is_bounded() -> None:
    grammar = load_grammar("lark", JSON_GRAMMAR)
    assert check(grammar, "[" * 900 + "]" * 900)[0].kind == "valid"
    verdict, accepted, ok_prefix = check(grammar, "[" * 100_000)
    assert (verdict.kind, ok_prefix) == ("unchecked", True)
    assert "nested" in verdict.reason
    assert accepted <= rows.MAX_TEXT_DEPTH + 1
    nested = Grammar("lark", 'start: "(" start ")" | "x"')
    edges = [check(nested, "(" * count)[0].kind for count in range(998, 1003)]
    assert edges == sorted(
        edges
    )  # invalid, then unchecked: the limit may be met at the end of the text


def test_long_loops_stay_flat() -> None:
    """What a recursive grammar keeps grows with the nesting, not with the text."""
    checker = load_grammar("lark", JSON_GRAMMAR).checker()
    assert isinstance(checker, GrammarChecker)
    checker.feed("[")
    for _ in range(3_000):
        checker.feed('{"a":[1,2]},')
    assert checker._row.depth < 5


def test_caches_begin_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_CACHED_MOVES", 20)
    monkeypatch.setattr(automaton, "MAX_CACHED_STARTS", 3)
    monkeypatch.setattr(rows, "MAX_CACHED_ROWS", 3)
    monkeypatch.setattr(rows, "MAX_KEPT_STATES", 2)
    for row in PATCHES:
        grammar = Grammar("lark", oracle.CODEX["apply_patch"])
        for _ in range(2):
            assert check(grammar, *row["text"]) == check(PATCH, row["text"])
        assert grammar.parser is not None
        assert grammar.parser.lexer.moves <= 20


def test_two_texts_at_once_do_not_meet() -> None:
    first, second = PATCH.checker(), PATCH.checker()
    good, bad = HEAD + "+a\n*** End Patch", "*** Begin Patch\n" + "nonsense " * 9
    for one, two in zip(good, bad, strict=False):
        first.feed(one)
        second.feed(two)
    assert first.finish().kind == "valid"
    assert second.finish().line == 2


def test_large_alternations_and_grammars() -> None:
    words = Grammar("lark", "start: WORD+\nWORD: " + "|".join(f'"w{at}."' for at in range(3_000)))
    assert words.matches("w0.w2999.w77.")
    assert not words.matches("w3000.")
    doubled = "\n".join(
        ["start: r0", *(f"r{at}: r{at + 1} r{at + 1}" for at in range(40)), 'r40: "x"']
    )
    assert check(Grammar("lark", doubled), "x" * 500)[0].kind == "invalid"
    chain = "\n".join(["start: r0", *(f'r{at}: "a" r{at + 1}' for at in range(500)), 'r500: "x"'])
    assert Grammar("lark", chain).matches("a" * 500 + "x")
    counted = Grammar("lark", 'start: ("x" "y")~3000..4000')
    assert counted.matches("xy" * 3_500)
    assert not counted.matches("xy" * 2_999)


def test_nul_and_half_pairs() -> None:
    assert PATCH.matches(HEAD + "+\0\n*** End Patch")
    verdict, accepted, _ = check(PATCH, HEAD + "+\ud83d\n*** End Patch")
    assert (verdict.line, verdict.column, accepted) == (3, 2, len(HEAD) + 1)
