"""Writes a regular grammar as one regular expression over JSON-escaped text, for a JSON-Schema `pattern`.

llama.cpp and vLLM 0.32 match a `pattern` against the string as it stands in the JSON, not against its value:
a line end is a backslash and an n there (measured: recordings `pattern-constraint-experiment`). So every
class of characters becomes what may stand for its members there (`pattern_text.py`).
Others match the value, as JSON Schema says (llguidance's schemas): for them the same expression is written
`over="value"`. xgrammar 0.2.9 decides by the pattern: it takes Codex's patch pattern as escaped text (tried).

The result uses only what llama.cpp, xgrammar and llguidance all read: groups, alternation, classes of
characters and ranges, `* + ? {m,n}`, both anchors. Every text that it lets through is valid: that is
proved by walking both automata, since greedy lexemes can make a grammar smaller than its expression.
With `%ignore`, what is ignored may stand between lexemes, not after the last one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gateway.grammar import chars, nodes
from gateway.grammar.automaton import Lexer, State
from gateway.grammar.load import Grammar
from gateway.grammar.nodes import (
    EMPTY,
    Alt,
    Call,
    Node,
    Repeat,
    Seq,
    Token,
    alt,
    repeat,
    seq,
)
from gateway.grammar.pattern_text import Over, write
from gateway.grammar.problems import OutOfFuel, Unsupported
from gateway.grammar.rows import Parser, Row
from gateway.grammar.rules import START

# Codex's has under 1 KB. Servers compile a pattern for every request, some of them slowly.
MAX_PATTERN_BYTES = 8 * 1024
# Nodes of the tree before it is written; every one takes at least a character.
MAX_TREE_WEIGHT = 20_000
# Steps of the proof, some 5 us each; Codex's takes 2,000.
MAX_PROOF_STEPS = 10_000
# Automaton states visited by the proof, as for a text; Codex's takes 1,300.
MAX_PROOF_FUEL = 500_000


class PatternResult(NamedTuple):
    """The expression, or None and why there is none."""

    pattern: str | None
    reason: str = ""


def pattern_for(grammar: Grammar, over: Over = "escaped") -> PatternResult:
    """The anchored expression that admits only what the grammar accepts.

    Args:
        grammar: loaded.
        over: what the server matches it against, the string as it stands in the JSON, or its value.
    """
    parser = grammar.parser
    if parser is None:
        return PatternResult(None, grammar.unchecked_reason or "the grammar is not read here")
    if parser.rules.recursive:
        return PatternResult(None, "a recursive grammar is no regular expression")
    try:
        tree = _Written(parser).tree()
        text = f"^{write(tree, over)}$"
        if (size := len(text.encode())) > MAX_PATTERN_BYTES:
            return PatternResult(None, f"the pattern would have {size} bytes")
        _prove(tree, parser)
    except (Unsupported, OutOfFuel, RecursionError) as error:
        return PatternResult(None, str(error) or "too costly to prove")
    return PatternResult(text)


# ------------------------------------------------------------------------------ one tree of characters


class _Written:
    """Rules written out in place, down to characters."""

    def __init__(self, parser: Parser) -> None:
        self.rules = parser.rules.rules
        self.lexemes = parser.rules.lexemes
        self.nullable = parser.nullable
        ignored = parser.rules.ignored
        self.between = EMPTY if ignored is None else repeat(ignored, 0, None)
        self.weights: dict[str, int] = {}

    def tree(self) -> Node:
        if self.weight(Call(START)) > MAX_TREE_WEIGHT:
            raise Unsupported("the grammar is too large for a pattern")
        if self.between == EMPTY:
            return self.later(Call(START))
        head = self.head(Call(START))
        return alt(head, EMPTY) if START in self.nullable else head

    def weight(self, node: Node) -> int:
        """The size of what `later` makes of a node; each rule is weighed once."""
        match node:
            case Call(rule):
                if rule not in self.weights:
                    self.weights[rule] = self.weight(self.rules[rule])
                return self.weights[rule]
            case Token(index):
                return nodes.weight(self.lexemes[index].tree) + nodes.weight(self.between)
            case Seq(children) | Alt(children):
                return 1 + sum(self.weight(child) for child in children)
            case Repeat(body):
                return 1 + self.weight(body)
            case _:
                raise AssertionError(f"{node} in a rule")

    def later(self, node: Node) -> Node:
        """The texts of a node behind other lexemes: what is ignored may stand before each lexeme."""
        match node:
            case Call(rule):
                return self.later(self.rules[rule])
            case Token(index):
                return seq(self.between, self.lexemes[index].tree)
            case Seq(parts):
                return seq(*(self.later(part) for part in parts))
            case Alt(options):
                return alt(*(self.later(option) for option in options))
            case Repeat(body, least, most):
                return repeat(self.later(body), least, most)
            case _:
                raise AssertionError(f"{node} in a rule")

    def head(self, node: Node) -> Node:
        """The texts of a node at the very front that have a lexeme: nothing is ignored before it."""
        match node:
            case Call(rule):
                return self.head(self.rules[rule])
            case Token(index):
                return self.lexemes[index].tree
            case Seq(parts):
                return alt(*self._heads(parts))
            case Alt(options):
                return alt(*(self.head(option) for option in options))
            case Repeat(body, least, most):
                rest = repeat(body, max(least - 1, 0), None if most is None else most - 1)
                return seq(self.head(body), self.later(rest))
            case _:
                raise AssertionError(f"{node} in a rule")

    def _heads(self, parts: tuple[Node, ...]) -> Iterator[Node]:
        for index, part in enumerate(parts):
            yield seq(self.head(part), *(self.later(rest) for rest in parts[index + 1 :]))
            if not nodes.nullable(part, self.nullable.__contains__):
                return


# ------------------------------------------------------------------------------------------- the proof

_Place = tuple[State, Row, State]


def _prove(tree: Node, parser: Parser) -> None:
    """Walks the tree's automaton beside the checker's; refuses a text that only the tree accepts."""
    ours = Lexer([tree])
    ours.fuel = parser.lexer.fuel = MAX_PROOF_FUEL
    row = parser.first()
    start: _Place = (ours.start(frozenset({0})), row, row.state)
    assert row.accepts or not nodes.nullable(tree)
    seen = {_key(start): start}  # the places too: an id is only unique while its object lives
    waiting = [start]
    steps = 0
    while waiting:
        place = waiting.pop()
        for char in _samples(place, parser):
            steps += 1
            if steps > MAX_PROOF_STEPS:
                raise Unsupported("the grammar is too large to prove its pattern")
            following = _follow(place, char, parser)
            if following is not None and _key(following) not in seen:
                seen[_key(following)] = following
                waiting.append(following)


_DIFFERS = (
    "its lexemes are greedy, and run into each other where a regular expression would part them"
)


def _key(place: _Place) -> tuple[int, int, int]:
    return id(place[0]), id(place[1]), id(place[2])


def _samples(place: _Place, parser: Parser) -> list[str]:
    """One character for each way on."""
    ours, row, state = place
    sets = [ours.lexer.borders[at] for at in ours.alive]
    sets += [parser.lexer.borders[at] for at in state.alive]
    if state.accepts:
        behind = parser.after(row, state.accepts)
        sets += [parser.lexer.borders[at] for at in behind.state.alive]
    return chars.representatives(sets)


def _follow(place: _Place, char: str, parser: Parser) -> _Place | None:
    ours, row, state = place
    next_ours, next_state = ours[char], state[char]
    if next_ours is None:
        return None
    if next_state is None:
        behind = parser.after(row, state.accepts) if state.accepts else None
        if behind is None or (next_state := behind.state[char]) is None:
            raise Unsupported(_DIFFERS)
        row = behind
    may_end = next_state.accepts and parser.after(row, next_state.accepts).accepts
    if next_ours.accepts and not may_end:
        raise Unsupported(_DIFFERS)
    return next_ours, row, next_state
