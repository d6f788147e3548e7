"""Checks a text against a grammar while it streams; the cost of a delta does not depend on what came before.

`feed` walks the lexer over the delta, character by character; where no lexeme goes on, the parser takes
what has ended and the lexer starts again. Nothing is read twice, so any split of a text into deltas
gives the same verdict at the same place.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from gateway.grammar.automaton import State
from gateway.grammar.problems import OutOfFuel, Unsupported
from gateway.grammar.rows import Parser, Row

# What finding new moves may cost in one text, in visits of automaton states (about 0.2 us each): a fixed
# part, and a part that grows with the text, so that a delta of 4 characters stays below 50 us on average.
# Codex's grammar needs 2,000 in all; a text that needs more than this is left unchecked.
MAX_FUEL = 1_000_000
MAX_FUEL_PER_CHAR = 64
# Names in a message: enough to see what is missing.
MAX_EXPECTED = 8

Kind = Literal["valid", "invalid", "unchecked"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a text. `line` and `column` (from 1) are those of the first bad character."""

    kind: Kind
    line: int | None = None
    column: int | None = None
    expected: str = ""
    reason: str = ""


class Checker(Protocol):
    """One text being checked.

    Attributes:
        ok_prefix: False from the first character on that no accepted text can have.
        accepted: how many characters lie before that one.
    """

    ok_prefix: bool
    accepted: int

    def feed(self, text: str) -> None: ...

    def finish(self) -> Verdict: ...


class GrammarChecker:
    """A `Checker` on a compiled grammar."""

    __slots__ = (
        "_column",
        "_earned",
        "_fuel",
        "_line",
        "_parser",
        "_row",
        "_state",
        "_verdict",
        "accepted",
        "ok_prefix",
    )

    def __init__(self, parser: Parser) -> None:
        self.ok_prefix = True
        self.accepted = 0
        self._parser = parser
        self._fuel = MAX_FUEL
        self._earned = 0  # characters that fuel has been given for
        self._line = 1
        self._column = 1
        self._verdict: Verdict | None = None
        self._row = parser.first()
        self._state = self._row.state

    def feed(self, text: str) -> None:
        """Takes the next piece of the text."""
        if self._verdict is not None:
            return
        lexer, after = self._parser.lexer, self._parser.after
        lexer.fuel = self._fuel
        state, row, index, char = self._state, self._row, 0, ""
        pieces = enumerate(text)
        while True:
            try:
                for index, char in pieces:
                    following = state[char]
                    if following is None:
                        ended, end = row, state
                        behind = after(row, state.accepts) if state.accepts else None
                        if behind is not None:
                            row, state = behind, behind.state
                            following = state[char]
                        if following is None:
                            self._place(text[:index])
                            self.ok_prefix = False
                            self._verdict = self._refusal(ended, end, behind, repr(char))
                            return
                        if lexer.fuel < 0:
                            raise OutOfFuel
                    state = following
                break
            except OutOfFuel:
                if not self._earn(text, index):
                    return
                state = state[char] or state  # kept, and never None, when fuel runs out
            except Unsupported as error:
                self._place(text[:index])
                self._verdict = Verdict("unchecked", reason=str(error))
                return
        self._state, self._row = state, row
        self._place(text)
        self._fuel = lexer.fuel

    def _earn(self, text: str, index: int) -> bool:
        """Fuel for the characters read so far; False when the text is given up. No split matters to it."""
        lexer = self._parser.lexer
        read = self.accepted + index
        lexer.fuel += MAX_FUEL_PER_CHAR * (read - self._earned)
        self._earned = read
        if lexer.fuel < 0:
            self._place(text[:index])
            self._verdict = TOO_COSTLY
        return lexer.fuel >= 0

    def _place(self, text: str) -> None:
        """Moves line and column behind a text that has been accepted."""
        self.accepted += len(text)
        lines = text.count("\n")
        if lines:
            self._line += lines
            self._column = len(text) - text.rfind("\n")
        else:
            self._column += len(text)

    def finish(self) -> Verdict:
        """The verdict on the whole text; asking again gives the same."""
        if self._verdict is None:
            try:
                self._verdict = self._end()
            except Unsupported as error:
                self._verdict = Verdict("unchecked", reason=str(error))
        return self._verdict

    def _end(self) -> Verdict:
        row, state = self._row, self._state
        if self.accepted == 0:
            behind, may_end = None, row.accepts
        else:
            behind = self._parser.after(row, state.accepts) if state.accepts else None
            may_end = behind is not None and behind.accepts
        return (
            Verdict("valid")
            if may_end
            else self._refusal(row, state, behind, "the end of the text")
        )

    def _refusal(self, row: Row, state: State, behind: Row | None, found: str) -> Verdict:
        """What could have gone on: the lexemes under way, and those that could begin where one ends."""
        wanted = state.owners() | (behind.lexemes if behind is not None else frozenset())
        lexemes = self._parser.rules.lexemes
        names = list(dict.fromkeys(lexemes[at].shown for at in sorted(wanted) if at < len(lexemes)))
        if len(names) > MAX_EXPECTED:
            names = [*names[:MAX_EXPECTED], f"{len(names) - MAX_EXPECTED} others"]
        if behind.accepts if behind is not None else self.accepted == 0 and row.accepts:
            names.append("the end of the text")
        expected = " or ".join(names) or "nothing"
        place = f"line {self._line}, column {self._column}"
        reason = f"{place}: expected {expected}, found {found}"
        return Verdict("invalid", self._line, self._column, expected, reason)


class Unchecked:
    """A `Checker` that takes any text and says why it could not be judged."""

    def __init__(self, reason: str) -> None:
        self.ok_prefix = True
        self.accepted = 0
        self._verdict = Verdict("unchecked", reason=reason)

    def feed(self, text: str) -> None:
        self.accepted += len(text)

    def finish(self) -> Verdict:
        return self._verdict


TOO_COSTLY = Verdict("unchecked", reason="checking this text would cost too much")
