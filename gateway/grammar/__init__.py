"""What a custom tool's text may be: loading its grammar, checking, unwrapping, and a pattern to constrain by.

Knows no tool and no wire. `load_grammar` is the way in.
"""

from gateway.grammar.check import Checker, Verdict
from gateway.grammar.load import Grammar, Syntax, load_grammar
from gateway.grammar.pattern import PatternResult, pattern_for
from gateway.grammar.problems import GrammarSyntaxError
from gateway.grammar.unwrap import unwrap, unwrapped

__all__ = [
    "Checker",
    "Grammar",
    "GrammarSyntaxError",
    "PatternResult",
    "Syntax",
    "Verdict",
    "load_grammar",
    "pattern_for",
    "unwrap",
    "unwrapped",
]
