"""Checking with llguidance, when that extra is installed: for what this room itself leaves unchecked.

It is the engine whose dialect OpenAI's grammars are written in; here it reads bytes, one token each.
"""

import importlib
from collections.abc import Callable
from typing import Any

from gateway.grammar.check import Checker, Verdict

_END = 256  # the token behind the 256 bytes


class _Bytes:
    """A vocabulary of single bytes, in the shape that llguidance's wrapper asks for."""

    eos_token_id = _END
    bos_token_id = None
    tokens = (*(bytes([value]) for value in range(256)), b"<end>")
    special_token_ids = (_END,)

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


def open_llguidance(syntax: str, definition: str) -> Callable[[], Checker] | None:
    """Makes checkers for the definition; None when llguidance is missing or cannot load it."""
    try:
        library: Any = importlib.import_module("llguidance")
    except ImportError:
        return None
    matcher_class = library.LLMatcher
    if syntax == "regex":
        source = matcher_class.grammar_from_regex(definition)
    else:
        source = matcher_class.grammar_from_lark(definition)
    vocabulary = library.LLTokenizer(library.TokenizerWrapper(_Bytes()))
    pristine = matcher_class(vocabulary, source, log_level=0)
    if pristine.is_error():
        return None
    return lambda: LlguidanceChecker(pristine.deep_copy())


class LlguidanceChecker:
    """A `Checker` on llguidance's matcher; it names the place, not what was expected there."""

    def __init__(self, matcher: Any) -> None:
        self.ok_prefix = True
        self.accepted = 0
        self._matcher = matcher
        self._line = 1
        self._column = 1
        self._failure = ""

    def feed(self, text: str) -> None:
        """Takes the next piece of the text."""
        if not self.ok_prefix or self._failure:
            return
        data = text.encode("utf-8", "surrogatepass")
        taken = self._matcher.try_consume_tokens(list(data))
        if self._matcher.is_error():  # its own limits
            self._failure = (
                "llguidance gave up: " + self._matcher.get_error().partition("\n")[0][:200]
            )
        good = text if taken == len(data) else data[:taken].decode("utf-8", "ignore")
        self.ok_prefix = taken == len(data)
        self.accepted += len(good)
        self._line += good.count("\n")
        self._column = len(good) - good.rfind("\n") + (self._column - 1 if "\n" not in good else 0)

    def finish(self) -> Verdict:
        """The verdict on the whole text."""
        if self._failure:
            return Verdict("unchecked", reason=self._failure)
        if self.ok_prefix and self._matcher.is_accepting():
            return Verdict("valid")
        found = (
            "the text ends too early" if self.ok_prefix else "a character that cannot stand there"
        )
        place = f"line {self._line}, column {self._column}"
        return Verdict("invalid", self._line, self._column, "", f"{place}: {found}")
