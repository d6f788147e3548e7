"""Loading: what is read, what is a client's error and where, what stays unchecked and why."""

import sys
import threading

import pytest
from lark import Lark
from lark.exceptions import LarkError

from gateway.grammar import llg, load
from gateway.grammar.check import Unchecked
from gateway.grammar.load import MAX_DEFINITION_CHARS, Grammar, load_grammar
from gateway.grammar.problems import GrammarSyntaxError
from tests.grammar import oracle

BROKEN = [
    # definition, line, column, part of the message
    ("", 1, 1, "empty"),
    (" \n\t\n", 1, 1, "empty"),
    ('begin: "a"', 1, 1, "no rule named 'start'"),
    ('START: "a"', 1, 1, "no rule named 'start'"),
    ("start: foo", 1, 8, "'foo' is not defined"),
    ("start: FOO", 1, 8, "'FOO' is not defined"),
    ('start: A\nA: b\nb: "x"', 2, 4, "'b' is not defined"),
    ('start: "a"\nstart: "b"', 2, 1, "'start' is defined twice"),
    ('%import common.WS\nstart: "x"\nWS: "a"', 3, 1, "'WS' is defined twice"),
    ('start: A\nA: B "x"\nB: A | "y"', 3, 4, "'A' contains itself"),
    ('start: "a', 1, 8, "unexpected '\"'"),
    ("start: 'a'", 1, 8, 'unexpected "\'"'),
    ('start: "a" ;', 1, 12, "unexpected ';'"),
    ('start = "a"', 1, 7, "expected ':', found '='"),
    ('start "a"', 1, 7, "expected ':'"),
    ('start: ("a"', 1, 12, "expected ')', found the end of the line"),
    ('start: ["a")', 1, 12, "expected ']', found ')'"),
    ('start: "a")', 1, 11, "expected the end of the line, found ')'"),
    ('start: "a"**', 1, 12, "expected a string"),
    ("start: +", 1, 8, "expected a string"),
    ("start: a ?b", 1, 10, "expected a string"),
    ('start:\n  "a"', 2, 3, "expected a rule, a terminal or a directive"),
    ('start: "a" -> "b"', 1, 15, "the name of an alias"),
    ('start: "a"{x}', 1, 12, "expected a number"),
    ('start: "a"~', 1, 12, "expected a number"),
    ('start: "a"~-1', 1, 12, "below 0"),
    ('start: "a"~2..1', 1, 16, "end is below its start"),
    ('start: "b".."a"', 1, 8, "a range that is none"),
    ('start: "ab".."c"', 1, 8, "a range that is none"),
    ('start: "a"..b', 1, 13, "the end of a range"),
    ('start: "\\ud83d"', 1, 8, "half a surrogate pair"),
    ('start: "\\U00110000"', 1, 8, "an escape that is no character"),
    ('start.x: "a"', 1, 7, "a priority"),
    ('%unknown x\nstart: "a"', 1, 1, "unknown directive '%unknown'"),
    ('%import\nstart: "a"', 1, 8, "what to import"),
    ('%import common (x)\nstart: "a"', 1, 17, "the name of a terminal"),
    ('%import common.INT -> "x"', 1, 23, "expected a name"),
    ("start: /(a/", 1, 9, "unclosed group"),
    ("start: /ab)/", 1, 11, "unopened group"),
    ("start: /[a/", 1, 9, "unclosed character class"),
    ("start: /*a/", 1, 9, "nothing to repeat before '*'"),
    ("start: A\nA: /a|+/", 2, 7, "nothing to repeat before '+'"),
    ("start: /[z-a]/", 1, 10, "a range whose end is below its start"),
    ("start: /a{3,2}/", 1, 10, "a repeat count whose end is below its start"),
    ("start: /\\x4/", 1, 9, "an incomplete hexadecimal escape"),
    ("start: /\\u{D800}/", 1, 9, "a hexadecimal escape that is no character"),
    ("start: /(?<1>a)/", 1, 9, "a group name that is none"),
    ("start: /(?i/", 1, 9, "unclosed group"),
]
BROKEN_REGEX = [
    ("", 1, 1, "empty"),
    ("(", 1, 1, "unclosed group"),
    ("a\nb)", 2, 2, "unopened group"),
    ("a\\", 1, 2, "a backslash at the end"),
]
UNCHECKED = [
    # definition, part of the reason; llguidance may know some of them
    ("start: /a(?=b)/", "lookahead"),
    ("start: /a(?!b)/", "lookahead"),
    ("start: /(?<=a)b/", "lookbehind"),
    ("start: /(?<!a)b/", "lookbehind"),
    ("start: /(a)\\1/", "a backreference"),
    ("start: /(?P<x>a)(?P=x)/", "a backreference"),
    ("start: /(?>a)/", "an atomic group"),
    ("start: /\\bword/", "a word boundary"),
    ("start: /[\\b]/", "the escape \\b"),
    ("start: /a\\Z/", "an anchor of another dialect"),
    ("start: /\\e/", "the escape \\e"),
    ("start: /a$b/", "an anchor inside"),
    ("start: /(^a)+/", "an anchor inside"),
    ("start: /(?m)^a/", "an anchor inside"),
    ("start: /a{x}/", "a brace that is not a repeat count"),
    ('start: /{"a": 1}/', "a brace that is not a repeat count"),
    ("start: /a{1234567}/", "a repeat count above"),
    ("start: /a{10001}/", "a repeat count above"),
    ("start: /(a{200}){200}/", "a terminal of more than"),
    ("start: /[a[:nope:]]/", "the character class [:nope:]"),
    ("start: /[a-[b]]/", "a class as the end of a range"),
    ("start: /[a-\\d]/", "a class as the end of a range"),
    ("start: /\\p{Script=Greek}/", "the Unicode property 'Script=Greek'"),
    ("start: /\\p{Nope}/", "the Unicode property 'Nope'"),
    ("start: /a/l", "the regular expression flag 'l'"),
    ("start: /" + "(" * 31 + "a" + ")" * 31 + "/", "groups nested more than"),
    ("start: /" + "[" * 31 + "a" + "]" * 31 + "/", "classes nested more than"),
    ("start: " + "(" * 31 + '"a"' + ")" * 31, "brackets nested more than"),
    ('start: "a"~1000000', "a repeat count above"),
    ('start: "\\q"', "the escape \\q"),
    ('start: x{"a"}\nx{p}: p', "templates"),
    ("start{p}: p", "templates"),
    ('start[lazy]: "a"', "options of a rule"),
    ("start: A & A\nA: /a/", "& and ~"),
    ("start: A\nA: ~/a/", "& and ~"),
    ("start: <|end|>", "special tokens"),
    ("start: @other", "special tokens"),
    ("%declare X\nstart: X", "%declare"),
    ('%override start: "a"', "%override"),
    ('start: %json {"type": "integer"}', "%json"),
    ("%import python.NAME\nstart: NAME", "imports other than"),
    ("%import .x.NAME\nstart: NAME", "imports other than"),
    ("%import common.NOPE\nstart: NOPE", "common.NOPE"),
    (
        "\n".join(["start: A0", *(f"A{i}: A{i + 1}" for i in range(99)), 'A99: "x"']),
        "nested more than",
    ),
    ("start: A\nA: " + " ".join(['"' + "x" * 2500 + '"'] * 5), "a terminal of more than"),
    ("start: " + " ".join(f'"{at}"' for at in range(2001)), "distinct terminals"),
    ("start: " + " ".join(f"/{at}a{{9000}}/" for at in range(9)), "terminals of more than"),
    ('start: "a" start "b" | ("c" "d" "e")~9000', "rules of more than"),
    ('start: "' + "a" * MAX_DEFINITION_CHARS + '"', "a definition of more than"),
]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without llguidance, as a plain installation is."""
    monkeypatch.setattr(load, "open_llguidance", lambda syntax, definition: None)


@pytest.mark.parametrize(("definition", "line", "column", "message"), BROKEN)
def test_broken_lark_names_the_place(definition: str, line: int, column: int, message: str) -> None:
    with pytest.raises(GrammarSyntaxError) as caught:
        load_grammar("lark", definition)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in caught.value.message
    assert not oracle.loads("lark", definition), "a 400 for what OpenAI's engine takes"


@pytest.mark.parametrize(("definition", "line", "column", "message"), BROKEN_REGEX)
def test_broken_regex_names_the_place(
    definition: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(GrammarSyntaxError, match=message) as caught:
        load_grammar("regex", definition)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(("definition", "reason"), UNCHECKED, ids=range(len(UNCHECKED)))
@pytest.mark.usefixtures("alone")
def test_what_cannot_be_checked_is_kept_with_the_reason(definition: str, reason: str) -> None:
    grammar = Grammar("lark", definition)
    assert grammar.parser is None
    assert reason in (grammar.unchecked_reason or "")
    checker = grammar.checker()
    checker.feed("anything")
    assert isinstance(checker, Unchecked)
    assert checker.finish().kind == "unchecked"
    assert checker.finish().reason == grammar.unchecked_reason
    assert checker.ok_prefix
    assert checker.accepted == 8
    assert not grammar.matches("anything")


@pytest.mark.parametrize("name", sorted(oracle.CODEX))
def test_codex_grammars_load(name: str) -> None:
    grammar = load_grammar("lark", oracle.CODEX[name])
    assert grammar.unchecked_reason is None
    assert grammar.parser is not None
    assert grammar.parser.inline
    assert load_grammar("lark", oracle.CODEX[name]) is grammar


@pytest.mark.parametrize("case", oracle.GRAMMARS, ids=lambda case: case["name"])
def test_each_grammar_of_the_collection(case: dict[str, object]) -> None:
    """Every text gets the verdict in the file; llguidance says the same, at the same character."""
    syntax, definition = case.get("syntax", "lark"), str(case["definition"])
    grammar = Grammar(syntax, definition)
    assert (grammar.parser is None) == ("unchecked" in case)
    texts = [(text, True) for text in case["accepted"]] + [
        (text, False) for text in case["refused"]
    ]
    for text, expected in texts:
        checker = grammar.checker()
        checker.feed(text)
        assert (checker.finish().kind == "valid") is expected, text
        assert grammar.matches(text) is expected
        if not case.get("unknown_to_llguidance"):
            assert oracle.judge(syntax, definition, text) == (expected, checker.accepted), text


@pytest.mark.parametrize(
    "case", [case for case in oracle.GRAMMARS if "unchecked" in case], ids=lambda c: c["name"]
)
@pytest.mark.usefixtures("alone")
def test_what_only_llguidance_knows_is_unchecked_without_it(case: dict[str, object]) -> None:
    grammar = Grammar("lark", str(case["definition"]))
    assert str(case["unchecked"]) in (grammar.unchecked_reason or "")


def test_lark_refuses_codex_grammar_as_sent() -> None:
    """Why grammars are read here at all; when this fails, lark has learned it."""
    with pytest.raises(LarkError):
        Lark(oracle.CODEX["apply_patch"], parser="lalr")


def test_deep_stack_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "open_llguidance", lambda syntax, definition: None)
    found: list[str | None] = []
    definition = "start: " + "(" * 29 + "/" + "(" * 30 + "a" + ")" * 30 + "/" + ")" * 29

    def shallow() -> None:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(60)
        try:
            found.append(Grammar("lark", definition).unchecked_reason)
        finally:
            sys.setrecursionlimit(limit)

    thread = threading.Thread(target=shallow)
    thread.start()
    thread.join()
    assert found == ["not checked here: nested too deep"]
    assert Grammar("lark", definition).matches("a")


def test_llguidance_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    assert llg.open_llguidance("lark", 'start: "a"') is None


def test_llguidance_checks_what_is_unchecked_here() -> None:
    grammar = Grammar("lark", 'start: A "\\n" A\nA: /[a-zé]+/ & ~/foo/')
    assert grammar.unchecked_reason is None
    checker = grammar.checker()
    for piece in ("bé", "r\n", "x", "!y", "z"):
        checker.feed(piece)
    verdict = checker.finish()
    assert (verdict.kind, verdict.line, verdict.column) == ("invalid", 2, 2)
    assert (checker.accepted, checker.ok_prefix) == (5, False)
    short = grammar.checker()
    short.feed("bar\n")
    assert "ends too early" in short.finish().reason
    assert grammar.matches("bar\nb")
    lone = grammar.checker()
    lone.feed("b\ud800")
    assert lone.finish().column == 2


def test_llguidance_gives_up_with_a_reason() -> None:
    grammar = Grammar("regex", "((a{1,100}){1,100}){1,100}")
    assert grammar.parser is None
    checker = grammar.checker()
    checker.feed("a" * 100)
    checker.feed("a")
    verdict = checker.finish()
    assert verdict.kind == "unchecked"
    assert verdict.reason.startswith("llguidance gave up: ")
    assert "\n" not in verdict.reason


def test_regex_for_llguidance() -> None:
    grammar = Grammar("regex", r"\p{Greek}+")
    assert grammar.matches("αβγ")
    assert not grammar.matches("abc")
