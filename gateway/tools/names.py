"""The names that an upstream sees: at most 64 characters of `[A-Za-z0-9_-]`, given once, never taken apart again.

`namespace__member` is only how a name is made. The way back is a table (tools/table.py): a name is never split, since
both halves may hold `__` themselves (Codex makes `mcp__weather`).
"""

import hashlib
import re
from typing import Final

from msgspec import Struct

# OpenAI, Azure, Groq and most local servers refuse longer names (Q51); Codex makes up to 128 (codex-cli 0.171).
MAX_NAME_CHARS = 64
# 48 bits: two names of one request practically never meet. Codex cuts its own names with 12 as well.
HASH_CHARS = 12
SEPARATOR = "__"
# The top level under another name: "functions" of responses-lite (codex-cli 0.171).
TOP_LEVEL_ALIAS = "functions"

# What a client calls a tool: (namespace, name), with None for the top level under either name.
Public = tuple[str | None, str]
# tool_search has no public name of its own, and a function of that name may stand beside it. No JSON text holds half
# a surrogate pair, while a model's call, and thus a history, may well have an empty name.
SEARCH_KEY: Final[Public] = (None, "\ud800")

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


class NameRule(Struct, frozen=True):
    """What an upstream accepts as a function name.

    Attributes:
        max_length: characters at most.
        first_letter: the first character must be a letter (Kimi, Q51).
    """

    max_length: int = MAX_NAME_CHARS
    first_letter: bool = False


DEFAULT_RULE = NameRule()


def public_key(namespace: str | None, name: str) -> Public:
    """The one key of a public name: members of `functions` are top-level tools."""
    return None if namespace == TOP_LEVEL_ALIAS else namespace, name


def plain_name(namespace: str | None, name: str, rule: NameRule = DEFAULT_RULE) -> str:
    """The upstream name of a tool while no other tool stands in its way.

    A name that is empty, too long, or that had to lose a character, ends in `_` and a hash of (namespace, name), so
    that two tools never become one.
    """
    wanted = name if namespace is None else f"{namespace}{SEPARATOR}{name}"
    clean = _FORBIDDEN.sub("_", wanted)
    if rule.first_letter and not clean[:1].isalpha():
        clean = f"f{clean}"
    if clean == wanted and 0 < len(clean) <= rule.max_length:
        return clean
    return hashed_name(namespace, name, clean, rule)


def hashed_name(namespace: str | None, name: str, clean: str, rule: NameRule = DEFAULT_RULE) -> str:
    """`clean`, cut, with a hash of the public name behind it."""
    public = f"{'' if namespace is None else namespace}\0{name}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(public).hexdigest()[:HASH_CHARS]
    return f"{clean[: rule.max_length - HASH_CHARS - 1]}_{digest}"


class NameBook:
    """Gives every tool of a request its own upstream name, in order: who comes first keeps the plain name."""

    def __init__(self, rule: NameRule = DEFAULT_RULE) -> None:
        self._rule = rule
        self._taken: dict[str, Public] = {}

    def give(self, namespace: str | None, name: str) -> str:
        """The upstream name of (namespace, name), the same at every call; unique in this book."""
        return self.claim((namespace, name), plain_name(namespace, name, self._rule))

    def owner(self, upstream: str) -> Public | None:
        """The public name that has this upstream name, None when it was never given."""
        return self._taken.get(upstream)

    def claim(self, public: Public, wanted: str) -> str:
        """`wanted` if it is free or has been given to `public` before, otherwise a hashed form of it."""
        if self._taken.setdefault(wanted, public) == public:
            return wanted
        namespace, name = public
        hashed = hashed_name(namespace, name, wanted, self._rule)
        while self._taken.setdefault(hashed, public) != public:
            # A client could declare a function that looks like our own hashed name: hash on until one is free.
            hashed = hashed_name(namespace, f"{name}\0{hashed}", wanted, self._rule)
        return hashed
