"""Reads a regular expression of the Rust `regex` dialect, which OpenAI's grammars use, into a tree.

Three outcomes: a tree, `RegexError` with the offset (broken in every dialect), or `Unsupported` with the
reason (lookaround, backreferences, and what only other dialects know). Groups only group and laziness
changes no language, so both vanish. Anchors are taken at the two ends, where they say nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.grammar import chars
from gateway.grammar.chars import CharSet
from gateway.grammar.nodes import EMPTY, NOTHING, Chars, Node, alt, repeat, seq
from gateway.grammar.problems import Unsupported

# People nest three or four groups. Reading is recursive, and Python's stack is finite.
MAX_GROUP_DEPTH = 30
# llguidance refuses larger ones too; written out, they would be that many states.
MAX_REPEATS = 10_000

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_CLASSES: dict[str, Callable[[], CharSet]] = {
    "d": chars.digits,
    "w": chars.words,
    "s": lambda: chars.SPACE,
}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_GROUP_KINDS = {
    "?=": "lookahead",
    "?!": "lookahead",
    "?<=": "lookbehind",
    "?<!": "lookbehind",
    "?>": "an atomic group",
    "?#": "a comment group",
    "?(": "a conditional group",
    "?P=": "a backreference",
    "?P>": "a recursive group",
}
_NOT_SUPPORTED_ESCAPES = {
    "b": "a word boundary",
    "B": "a word boundary",
    "<": "a word boundary",
    ">": "a word boundary",
    "G": "an anchor inside the expression",
    "Z": "an anchor of another dialect",
    "K": "a match reset",
}
_META = frozenset("\\.+*?()|[]{}^$#&-~/\"'@ %_!,:;<=>`")


class RegexError(ValueError):
    """Broken in every dialect."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False
    multi_line: bool = False
    verbose: bool = False
    crlf: bool = False


_FLAG_NAMES = {
    "i": "ignore_case",
    "s": "dot_all",
    "m": "multi_line",
    "x": "verbose",
    "R": "crlf",
}
_IDLE_FLAGS = frozenset("uU")  # Unicode is always on here, and greed changes no language


def parse(source: str, flags: str = "") -> Node:
    """The tree of a regular expression.

    Raises:
        RegexError: broken.
        Unsupported: not checked here.
    """
    return _Reader(source, _with_flags(_Flags(), flags, on=True)).read()


def _with_flags(flags: _Flags, letters: str, *, on: bool) -> _Flags:
    for letter in letters:
        if letter in _FLAG_NAMES:
            flags = replace(flags, **{_FLAG_NAMES[letter]: on})
        elif letter not in _IDLE_FLAGS:
            raise Unsupported(f"the regular expression flag {letter!r}")
    return flags


class _Reader:
    """Recursive descent over the source; every method leaves `at` behind what it has read."""

    def __init__(self, source: str, flags: _Flags) -> None:
        self.source = source
        self.at = 0
        self.flags = flags
        self.depth = 0
        self.at_head = True  # nothing that takes a character has been read in this alternative
        self.anchors = 0

    def read(self) -> Node:
        node = self._choice()
        if self.at < len(self.source):
            raise RegexError("unopened group", self.at)
        return node

    def _peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def _take(self, expected: str) -> bool:
        if self.source.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    # ------------------------------------------------------------------------------- structure

    def _choice(self) -> Node:
        if self.depth > MAX_GROUP_DEPTH:
            raise Unsupported(f"groups nested more than {MAX_GROUP_DEPTH} deep")
        flags = self.flags  # (?i) holds to the end of the group it stands in
        at_head = self.at_head
        options = [self._sequence()]
        while self._take("|"):
            self.at_head = at_head
            options.append(self._sequence())
        self.flags = flags
        return alt(*options)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while True:
            self._skip_verbose()
            char = self._peek()
            if char in ("", "|", ")"):
                return seq(*parts)
            if char in ("^", "$") or self.source.startswith(("\\A", "\\z"), self.at):
                self._anchor()
                continue
            if char in "*+?{":
                raise self._nothing_to_repeat(char)
            parts.append(self._quantified())

    def _anchor(self) -> None:
        """At the two ends of a lexeme an anchor says nothing; anywhere else it is lookaround."""
        letter = self._peek()
        self.at += 1 if letter in "^$" else 2
        opens = letter == "^" or self.source[self.at - 1] == "A"
        rest = self.source[self.at :].lstrip(")$")
        ends = rest == "" or (rest[0] == "|" and self.depth == 0)
        if not (self.at_head if opens else ends) or self.flags.multi_line:
            raise Unsupported("an anchor inside a regular expression")
        self.anchors += 1

    def _nothing_to_repeat(self, char: str) -> Exception:
        if char == "{":
            # Python and JavaScript read a stray brace as itself; Rust, and so OpenAI, refuses it.
            return Unsupported("a brace that is not a repeat count")
        return RegexError(f"nothing to repeat before {char!r}", self.at)

    def _skip_verbose(self) -> None:
        while self.flags.verbose and self._peek():
            if self._peek().isspace():
                self.at += 1
            elif self._peek() == "#":
                end = self.source.find("\n", self.at)
                self.at = len(self.source) if end < 0 else end
            else:
                return

    def _quantified(self) -> Node:
        anchors = self.anchors
        node = self._atom()
        self.at_head = False
        while True:
            self._skip_verbose()
            char = self._peek()
            if char in _QUANTIFIERS:
                self.at += 1
                least, most = _QUANTIFIERS[char]
            elif char == "{":
                least, most = self._counts()
            else:
                return node
            self._take("?")  # lazy: fewer first, the same texts
            if self.anchors != anchors:
                raise Unsupported("an anchor inside a regular expression")
            node = repeat(node, least, most)

    def _counts(self) -> tuple[int, int | None]:
        start = self.at
        end = self.source.find("}", start)
        low, comma, high = self.source[start + 1 : max(end, start + 1)].partition(",")
        low, high = low.strip(), high.strip()
        if end < 0 or not _is_number(low) or (high and not _is_number(high)):
            raise Unsupported("a brace that is not a repeat count")
        self.at = end + 1
        if max(len(low), len(high)) > 6:
            raise Unsupported(f"a repeat count above {MAX_REPEATS}")
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if most is not None and most < least:
            raise RegexError("a repeat count whose end is below its start", start)
        if max(least, most or 0) > MAX_REPEATS:
            raise Unsupported(f"a repeat count above {MAX_REPEATS}")
        return least, most

    # ------------------------------------------------------------------------------- atoms

    def _atom(self) -> Node:
        char = self._peek()
        if char == "(":
            return self._group()
        if char == "[":
            return self._chars(self._class())
        if char == "\\":
            return self._chars(self._escape(in_class=False))
        self.at += 1
        if char == ".":
            if self.flags.dot_all:
                return Chars(chars.ANY)
            return Chars(chars.complement(chars.of("\r\n" if self.flags.crlf else "\n")))
        return self._chars(chars.intersect(chars.of(char), chars.ANY))

    def _chars(self, borders: CharSet) -> Node:
        borders = chars.fold(borders) if self.flags.ignore_case else borders
        return Chars(borders) if borders else NOTHING

    def _group(self) -> Node:
        start = self.at
        self.at += 1
        outer = self.flags
        if self._peek() == "?":
            for head, kind in _GROUP_KINDS.items():
                if self.source.startswith(head, self.at):
                    raise Unsupported(f"{kind} in a regular expression")
            if self._take("?P<") or self._take("?<"):
                self._name(start)
            elif self._flag_group(start):
                return EMPTY
        self.depth += 1
        node = self._choice()
        self.depth -= 1
        if not self._take(")"):
            raise RegexError("unclosed group", start)
        self.flags = outer
        return node

    def _name(self, start: int) -> None:
        end = self.source.find(">", self.at)
        if end < 0 or not self.source[self.at : end].isidentifier():
            raise RegexError("a group name that is none", start)
        self.at = end + 1

    def _flag_group(self, start: int) -> bool:
        """`(?i)` sets flags from here on (True); `(?i:` opens a group that has them."""
        self.at += 1
        on = True
        while True:
            letter = self._peek()
            self.at += 1
            if letter == "":
                raise RegexError("unclosed group", start)
            if letter == ":":
                return False
            if letter == ")":
                return True
            if letter == "-" and on:
                on = False
            else:
                self.flags = _with_flags(self.flags, letter, on=on)

    def _escape(self, *, in_class: bool) -> CharSet:
        start = self.at
        self.at += 2
        letter = self.source[start + 1 : start + 2]
        if letter == "":
            raise RegexError("a backslash at the end", start)
        if letter in _ESCAPES:
            return chars.of(_ESCAPES[letter])
        if letter in "dwsDWS":
            borders = _CLASSES[letter.lower()]()
            return borders if letter.islower() else chars.complement(borders)
        if letter in "pP":
            borders = self._property()
            return borders if letter == "p" else chars.complement(borders)
        if letter in _HEX_LENGTHS:
            return self._hexadecimal(letter, start)
        if letter.isdigit():
            raise Unsupported("a backreference in a regular expression")
        if letter in _META:
            return chars.of(letter)
        if letter in _NOT_SUPPORTED_ESCAPES and not in_class:
            raise Unsupported(f"{_NOT_SUPPORTED_ESCAPES[letter]} in a regular expression")
        raise Unsupported(f"the escape \\{letter} in a regular expression")

    def _hexadecimal(self, letter: str, start: int) -> CharSet:
        if self._take("{"):
            end = self.source.find("}", self.at)
            digits = self.source[self.at : max(end, self.at)]
            self.at = end + 1
        else:
            digits = self.source[self.at : self.at + _HEX_LENGTHS[letter]]
            self.at += len(digits)
            if len(digits) != _HEX_LENGTHS[letter]:
                digits = ""
        if not 0 < len(digits) <= 8 or not all(
            digit in "0123456789abcdefABCDEF" for digit in digits
        ):
            raise RegexError("an incomplete hexadecimal escape", start)
        code_point = int(digits, 16)
        if not chars.contains(chars.ANY, code_point):
            raise RegexError("a hexadecimal escape that is no character", start)
        return (code_point, code_point + 1)

    def _property(self) -> CharSet:
        if self._take("{"):
            end = self.source.find("}", self.at)
            name = self.source[self.at : max(end, self.at)]
            self.at = end + 1 if end >= 0 else len(self.source)
        else:
            name = self._peek()
            self.at += 1
        borders = chars.property_set(name)
        if borders is None:
            raise Unsupported(f"the Unicode property {name[:40]!r}")
        return borders

    # ------------------------------------------------------------------------------- classes

    def _class(self) -> CharSet:
        start = self.at
        self.at += 1
        self.depth += 1
        if self.depth > MAX_GROUP_DEPTH:
            raise Unsupported(f"classes nested more than {MAX_GROUP_DEPTH} deep")
        negated = self._take("^")
        result = self._class_items(start)
        for operator, combine in (
            ("&&", chars.intersect),
            ("--", chars.minus),
            ("~~", chars.differ),
        ):
            while self._take(operator):
                result = combine(result, self._class_items(start, after_operator=True))
        if not self._take("]"):
            raise Unsupported("mixed set operators in a class")
        self.depth -= 1
        if self.flags.ignore_case:
            result = chars.fold(result)
        return chars.complement(result) if negated else result

    def _class_items(self, start: int, *, after_operator: bool = False) -> CharSet:
        found: list[CharSet] = []
        first = not after_operator
        while True:
            char = self._peek()
            if char == "":
                raise RegexError("unclosed character class", start)
            if char == "]" and not first:
                return chars.union(*found)
            if char in "&-~" and self.source.startswith(char * 2, self.at) and not first:
                return chars.union(*found)
            first = False
            if self.flags.verbose and char.isspace():
                self.at += 1
                continue
            if char == "[":
                found.append(self._named_class() if self._is_named() else self._class())
                continue
            low = self._class_char()
            found.append(self._range(low))

    def _is_named(self) -> bool:
        return (
            self._peek() == "["
            and self.source.startswith("[:", self.at)
            and (self.source.find(":]", self.at) > 0)
        )

    def _named_class(self) -> CharSet:
        end = self.source.find(":]", self.at)
        name = self.source[self.at + 2 : end]
        negated = name.startswith("^")
        borders = chars.ASCII_CLASSES.get(name.removeprefix("^"))
        if borders is None:
            raise Unsupported(f"the character class [:{name[:20]}:]")
        self.at = end + 2
        return chars.complement(borders) if negated else borders

    def _class_char(self) -> CharSet:
        if self._peek() == "\\":
            return self._escape(in_class=True)
        self.at += 1
        return chars.intersect(chars.of(self.source[self.at - 1]), chars.ANY)

    def _range(self, low: CharSet) -> CharSet:
        """`a-z`, when a dash and an end follow; a dash before `]` is itself."""
        after = self.source[self.at : self.at + 2]
        if len(after) < 2 or after[0] != "-" or after[1] in "]-":
            return low
        start = self.at
        self.at += 1
        if self._peek() == "[":
            raise Unsupported("a class as the end of a range")
        high = self._class_char()
        first, last = chars.single(low), chars.single(high)
        if first is None or last is None:
            raise Unsupported("a class as the end of a range")
        if last < first:
            raise RegexError("a range whose end is below its start", start - 1)
        return chars.span(first, last)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
