"""Writes a tree of characters as an expression over JSON-escaped text, or over a string's value.

In JSON-escaped text:

- a character stands for itself, save `"`, `\\` and control characters;
- `\\"`, `\\\\`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t` for those that have a short escape; `\\/` too, in a class;
- `\\u00XX` for the other control characters, in either case. No other `\\u` escape: models write plain text.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from gateway.grammar import chars
from gateway.grammar.chars import CharSet
from gateway.grammar.nodes import EMPTY, Alt, Chars, Node, Repeat, Seq, alt

Over = Literal["escaped", "value"]


def write(tree: Node, over: Over) -> str:
    """The expression, without anchors."""
    return _emit(tree, _SEQUENCE, _WRITERS[over])


_Writer = Callable[[CharSet], list[str]]  # alternatives for one character of a set

# How tightly a piece of an expression holds together.
_CHOICE, _SEQUENCE, _ATOM = range(3)

_SHORT = {'"': '"', "\\": "\\\\", "/": "/"} | dict(zip("\b\f\n\r\t", "bfnrt", strict=True))
_CONTROLS = chars.span("\0", "\x1f")
# Characters that may stand for themselves inside a JSON string (RFC 8259, section 7).
_PLAIN = chars.minus(chars.ANY, chars.union(_CONTROLS, chars.of('"\\')))
_SHORT_SET = chars.of("".join(_SHORT))
_LONG_SET = chars.minus(_CONTROLS, _SHORT_SET)
_CONTROL_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = frozenset("\\^$.|?*+()[]{}")


def _emit(node: Node, tightness: int, write: _Writer) -> str:
    match node:
        case Chars(borders):
            return _emit_choice(write(borders), tightness)
        case Seq(parts):
            text = "".join(_emit(part, _SEQUENCE, write) for part in parts)
            return f"({text})" if tightness == _ATOM else text
        case Alt(options):
            full = [option for option in options if option != EMPTY]
            if len(full) < len(options):
                return _emit(Repeat(alt(*full), 0, 1), tightness, write)
            return _emit_choice([_emit(option, _CHOICE, write) for option in full], tightness)
        case Repeat(body, least, most):
            text = _emit(body, _ATOM, write) + _emit_counts(least, most)
            return f"({text})" if tightness == _ATOM else text
        case _:
            raise AssertionError(f"{node} in a pattern")


def _emit_counts(least: int, most: int | None) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (least, most) in signs:
        return signs[least, most]
    if least == most:
        return f"{{{least}}}"
    return f"{{{least},{'' if most is None else most}}}"


def _emit_choice(options: list[str], tightness: int) -> str:
    text = "|".join(options)
    if len(options) > 1:
        return text if tightness == _CHOICE else f"({text})"
    return f"({text})" if tightness == _ATOM and not _is_unit(text) else text


def _is_unit(text: str) -> bool:
    """One character, escaped or not, or one class: what a quantifier may follow."""
    return (
        len(text) == 1
        or (len(text) == 2 and text[0] == "\\")
        or (text[0] == "[" and "]" not in text[1:-1].replace("\\]", ""))
    )


def _emit_escaped(borders: CharSet) -> list[str]:
    """What may stand for a member of the set in a JSON string, as alternatives."""
    options = []
    plain = chars.intersect(borders, _PLAIN)
    if plain:
        options.append(_emit_class(plain))
    short = chars.intersect(borders, _SHORT_SET)
    if chars.single(borders) == "/":
        short = chars.NONE
    if short:
        letters = [_SHORT[chr(member)] for member in _members(short)]
        options.append("\\\\" + (letters[0] if len(letters) == 1 else f"[{''.join(letters)}]"))
    for high in "01":
        row = [
            member
            for member in _members(chars.intersect(borders, _LONG_SET))
            if member >> 4 == int(high)
        ]
        if row:
            options.append(f"\\\\u00{high}{_emit_hex(row)}")
    return options


def _emit_value(borders: CharSet) -> list[str]:
    """A member of the set, as it is."""
    return [_emit_class(borders)] if borders != chars.ANY else [".", "\\n"]


_WRITERS: dict[Over, _Writer] = {"escaped": _emit_escaped, "value": _emit_value}


def _members(borders: CharSet) -> Iterator[int]:
    for first, last in chars.ranges(borders):
        yield from range(first, last + 1)


def _emit_hex(members: Iterable[int]) -> str:
    """The last digit of `\\u00XX`, in either case."""
    digits = "".join(f"{member & 15:x}" for member in members)
    return _emit_class(chars.of(digits + digits.upper()))


def _emit_class(borders: CharSet) -> str:
    """A class of characters; a set that has the last of all characters is written by what it lacks."""
    if (only := chars.single(borders)) is not None:
        return f"\\{only}" if only in _SPECIAL else _class_char(ord(only))
    sign = ""
    if borders[-1] == chars.END:
        borders, sign = chars.complement(borders), "^"  # never empty: the quote is not plain
    marks = [mark for mark in "^-" if chars.contains(borders, ord(mark))]
    text = ""
    for low, high in chars.ranges(chars.minus(borders, chars.of("^-"))):
        if high - low < 2:
            text += "".join(_class_char(member) for member in range(low, high + 1))
        else:
            text += f"{_class_char(low)}-{_class_char(high)}"
    # A dash is itself at either end, a caret anywhere but in front.
    return f"[{sign}{text}{''.join(marks)}]" if text or sign else "[-^]"


def _class_char(member: int) -> str:
    char = chr(member)
    if char in _CONTROL_NAMES:
        return _CONTROL_NAMES[char]
    if member < 0x20:
        return f"\\x{member:02x}"
    return f"\\{char}" if char in "\\[]" else char
