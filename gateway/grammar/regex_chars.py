"""The parts of a regular expression that stand for one character: escapes and classes, as Rust reads them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.grammar import chars
from gateway.grammar.chars import CharSet
from gateway.grammar.problems import Unsupported

# People nest three or four groups. Reading is recursive, and Python's stack is finite.
MAX_GROUP_DEPTH = 30

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_CLASSES: dict[str, Callable[[], CharSet]] = {
    "d": chars.digits,
    "w": chars.words,
    "s": lambda: chars.SPACE,
}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_OPERATORS: dict[str, Callable[[CharSet, CharSet], CharSet]] = {
    "&&": chars.intersect,
    "--": chars.minus,
    "~~": chars.differ,
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
class Flags:
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


def with_flags(flags: Flags, letters: str, *, on: bool) -> Flags:
    for letter in letters:
        if letter in _FLAG_NAMES:
            flags = replace(flags, **{_FLAG_NAMES[letter]: on})
        elif letter not in _IDLE_FLAGS:
            raise Unsupported(f"the regular expression flag {letter!r}")
    return flags


class CharReader:
    """A place in a regular expression, and how to read one character's worth of it."""

    def __init__(self, source: str, flags: Flags) -> None:
        self.source = source
        self.at = 0
        self.flags = flags
        self.depth = 0

    def peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def take(self, expected: str) -> bool:
        if self.source.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def escape(self, *, in_class: bool) -> CharSet:
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
        if self.take("{"):
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
        if self.take("{"):
            end = self.source.find("}", self.at)
            name = self.source[self.at : max(end, self.at)]
            self.at = end + 1 if end >= 0 else len(self.source)
        else:
            name = self.peek()
            self.at += 1
        borders = chars.property_set(name)
        if borders is None:
            raise Unsupported(f"the Unicode property {name[:40]!r}")
        return borders

    # ------------------------------------------------------------------------------- classes

    def class_(self) -> CharSet:
        start = self.at
        self.at += 1
        self.depth += 1
        if self.depth > MAX_GROUP_DEPTH:
            raise Unsupported(f"classes nested more than {MAX_GROUP_DEPTH} deep")
        negated = self.take("^")
        result = self._class_items(start)
        while not self.take("]"):
            combine = _OPERATORS[self.source[self.at : self.at + 2]]
            self.at += 2
            result = combine(result, self._class_items(start, after_operator=True))
        self.depth -= 1
        if self.flags.ignore_case:
            result = chars.fold(result)
        return chars.complement(result) if negated else result

    def _class_items(self, start: int, *, after_operator: bool = False) -> CharSet:
        found: list[CharSet] = []
        first = not after_operator
        while True:
            char = self.peek()
            if char == "":
                raise RegexError("unclosed character class", start)
            if char == "]" and not first:
                return chars.union(*found)
            if self.source[self.at : self.at + 2] in _OPERATORS and not first:
                return chars.union(*found)
            first = False
            if self.flags.verbose and char.isspace():
                self.at += 1
                continue
            if char == "[":
                found.append(self._named_class() if self._is_named() else self.class_())
                continue
            low = self._class_char()
            found.append(self._range(low))

    def _is_named(self) -> bool:
        return (
            self.peek() == "["
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
        if self.peek() == "\\":
            return self.escape(in_class=True)
        self.at += 1
        return chars.intersect(chars.of(self.source[self.at - 1]), chars.ANY)

    def _range(self, low: CharSet) -> CharSet:
        """`a-z`, when a dash and an end follow; a dash before `]` is itself."""
        after = self.source[self.at : self.at + 2]
        if len(after) < 2 or after[0] != "-" or after[1] in "]-":
            return low
        start = self.at
        self.at += 1
        if self.peek() == "[":
            raise Unsupported("a class as the end of a range")
        high = self._class_char()
        first, last = chars.single(low), chars.single(high)
        if first is None or last is None:
            raise Unsupported("a class as the end of a range")
        if last < first:
            raise RegexError("a range whose end is below its start", start - 1)
        return chars.span(first, last)
