"""Makes a `Grammar` of a custom tool's `format`: checked here, or kept `unchecked` with the reason.

A definition that is broken is a `GrammarSyntaxError`; one that is only beyond this room is not the
client's fault, so it loads and says why nothing is checked.
"""

import functools
from typing import Literal

from gateway.grammar import rules
from gateway.grammar.check import Checker, GrammarChecker, Unchecked
from gateway.grammar.llg import open_llguidance
from gateway.grammar.problems import GrammarSyntaxError, Unsupported
from gateway.grammar.rows import Parser

Syntax = Literal["lark", "regex"]

# Codex's grammars have 1 KB, a SQL dialect some 10 KB. Reading costs about 3 us a character.
MAX_DEFINITION_CHARS = 64 * 1024
# Grammars kept loaded: a client declares two or three, again with every request.
MAX_LOADED = 64


class Grammar:
    """A loaded definition.

    Attributes:
        unchecked_reason: why texts are not checked; None when they are.
    """

    def __init__(self, syntax: Syntax, definition: str) -> None:
        self.syntax = syntax
        self.definition = definition
        self.unchecked_reason: str | None = None
        self.parser: Parser | None = None
        try:
            self.parser = _compile(syntax, definition)
        except Unsupported as error:
            self.unchecked_reason = f"not checked here: {error}"
        except RecursionError:
            self.unchecked_reason = "not checked here: nested too deep"
        self._llguidance = (
            open_llguidance(syntax, definition)
            if self.parser is None and len(definition) <= MAX_DEFINITION_CHARS
            else None
        )
        if self._llguidance is not None:
            self.unchecked_reason = None

    def checker(self) -> Checker:
        """A checker for one text."""
        if self.parser is not None:
            return GrammarChecker(self.parser)
        if self._llguidance is not None:
            return self._llguidance()
        return Unchecked(self.unchecked_reason or "")

    def matches(self, text: str) -> bool:
        """Whether the whole text is known to be in the language."""
        checker = self.checker()
        checker.feed(text)
        return checker.finish().kind == "valid"


@functools.lru_cache(maxsize=MAX_LOADED)
def load_grammar(syntax: Syntax, definition: str) -> Grammar:
    """The grammar of a definition; the same object for the same definition.

    Raises:
        GrammarSyntaxError: empty or broken, with line and column.
    """
    return Grammar(syntax, definition)


def _compile(syntax: Syntax, definition: str) -> Parser:
    if not definition.strip():
        raise GrammarSyntaxError("the definition is empty", 1, 1)
    if len(definition) > MAX_DEFINITION_CHARS:
        raise Unsupported(f"a definition of more than {MAX_DEFINITION_CHARS} characters")
    if syntax == "regex":
        return Parser(rules.of_regex(definition))
    return Parser(rules.of_lark(definition))
