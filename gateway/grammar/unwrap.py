"""Takes exactly one known wrapping off a text, when the grammar says that what is inside is what was meant.

Models wrap: a Markdown fence, the shell's heredoc, stars around a patch's marks, JSON around a string. Nothing
is taken off on its looks alone: a wrapping counts only if the text inside matches and the text as it came
does not, and only one is tried at a time.
"""

import json
import re
from collections.abc import Callable, Iterator

from gateway.grammar.load import Grammar

# Longer texts are left as they are: a patch of 10 MB is no slip of a model, and each attempt reads it again.
MAX_WRAPPED_CHARS = 1024 * 1024

_FENCE = re.compile(r"\s*(?P<mark>```+|~~~+)[^\n`]*\n(?P<inside>.*?\n?)(?P=mark)\s*", re.DOTALL)
_HEREDOC = re.compile(
    r"\s*(?:(?:apply_patch|applypatch)\s+)?<<-?[ \t]*(?P<quote>['\"]?)(?P<word>[A-Za-z_]\w*)(?P=quote)"
    r"[ \t]*\n(?P<inside>.*\n)(?P=word)\s*",
    re.DOTALL,
)
_STARS = re.compile(r"^(\*\*\* (?:Begin|End) Patch) \*\*\*[ \t]*$", re.MULTILINE)


def _fence(text: str) -> Iterator[str]:
    """```` ```diff … ``` ````, with or without a language."""
    if (match := _FENCE.fullmatch(text)) is not None:
        yield match["inside"]
        yield match["inside"].removesuffix("\n")


def _heredoc(text: str) -> Iterator[str]:
    """`apply_patch <<'EOF' … EOF`, with any quotes and any word, with or without the command."""
    if (match := _HEREDOC.fullmatch(text)) is not None:
        yield match["inside"]
        yield match["inside"].removesuffix("\n")


def _stars(text: str) -> Iterator[str]:
    """`*** Begin Patch ***`, the commonest slip of small models."""
    without, count = _STARS.subn(r"\1", text)
    if count:
        yield without


def _json(text: str) -> Iterator[str]:
    """A JSON string, or an object whose only value is one."""
    if text.lstrip()[:1] not in ('"', "{"):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, str):
        yield value


WRAPPINGS: dict[str, Callable[[str], Iterator[str]]] = {
    "fence": _fence,
    "heredoc": _heredoc,
    "stars": _stars,
    "json": _json,
}


def unwrap(grammar: Grammar, text: str) -> str | None:
    """What is inside the one wrapping of a text; None when there is none, or it does not match either."""
    found = unwrapped(grammar, text)
    return None if found is None else found[1]


def unwrapped(grammar: Grammar, text: str) -> tuple[str, str] | None:
    """As `unwrap`, with the name of the wrapping in front."""
    if len(text) > MAX_WRAPPED_CHARS or grammar.matches(text):
        return None
    for name, openings in WRAPPINGS.items():
        for inside in openings(text):
            if grammar.matches(inside):
                return name, inside
    return None
