"""Sets of characters, as the sorted borders at which membership flips.

`(97, 100)` is {a, b, c}: a code point is a member when the number of borders at or below it is odd. So
membership is one bisection, and complement, union and intersection are one pass over sorted numbers.
Surrogates belong to no set: they are not characters (Rust `regex`, and so OpenAI's dialect).
"""

import functools
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

CharSet = tuple[int, ...]

END = 0x110000
ANY: CharSet = (0, 0xD800, 0xE000, END)
NONE: CharSet = ()


def contains(borders: CharSet, code_point: int) -> bool:
    return bisect_right(borders, code_point) & 1 == 1


def of(text: str) -> CharSet:
    """The characters of a text."""
    if len(text) == 1:
        return (ord(text), ord(text) + 1)
    return union(*((ord(char), ord(char) + 1) for char in text))


def span(first: str, last: str) -> CharSet:
    """From one character to another, both included."""
    return intersect((ord(first), ord(last) + 1), ANY)


def _merge(sets: tuple[CharSet, ...], keep: Callable[[int], bool]) -> CharSet:
    """Sweeps over all borders; `keep` says whether a point inside so many of the sets is a member."""
    changes: dict[int, int] = {}
    for borders in sets:
        for index, border in enumerate(borders):
            changes[border] = changes.get(border, 0) + (-1 if index & 1 else 1)
    result: list[int] = []
    depth, inside = 0, False
    for border in sorted(changes):
        depth += changes[border]
        if keep(depth) is not inside:
            inside = not inside
            result.append(border)
    return tuple(result)


def union(*sets: CharSet) -> CharSet:
    return _merge(sets, lambda depth: depth > 0)


def intersect(*sets: CharSet) -> CharSet:
    return _merge(sets, lambda depth: depth == len(sets))


def differ(left: CharSet, right: CharSet) -> CharSet:
    """In exactly one of the two."""
    return _merge((left, right), lambda depth: depth == 1)


def complement(borders: CharSet) -> CharSet:
    return differ(ANY, intersect(ANY, borders))


def minus(left: CharSet, right: CharSet) -> CharSet:
    return intersect(left, complement(right))


def ranges(borders: CharSet) -> Iterator[tuple[int, int]]:
    """Pairs (first, last), both included."""
    for index in range(0, len(borders), 2):
        yield borders[index], borders[index + 1] - 1


def size(borders: CharSet) -> int:
    return sum(last - first + 1 for first, last in ranges(borders))


def single(borders: CharSet) -> str | None:
    """The only member, if there is exactly one."""
    return chr(borders[0]) if size(borders) == 1 else None


# ------------------------------------------------------------------------------------------- Unicode

# White_Space (PropList.txt); Rust's \s.
SPACE = union(
    of("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"), span("\u2000", "\u200a")
)
# Join_Control and the circled letters that are Other_Alphabetic: members of Rust's \w by name.
_WORD_EXTRAS = union(
    of("\u200c\u200d"),
    span("\u24b6", "\u24e9"),
    span("\U0001f130", "\U0001f149"),
    span("\U0001f150", "\U0001f169"),
    span("\U0001f170", "\U0001f189"),
)
ASCII_CLASSES: dict[str, CharSet] = {
    "alnum": union(span("0", "9"), span("A", "Z"), span("a", "z")),
    "alpha": union(span("A", "Z"), span("a", "z")),
    "ascii": span("\0", "\x7f"),
    "blank": of(" \t"),
    "cntrl": union(span("\0", "\x1f"), of("\x7f")),
    "digit": span("0", "9"),
    "graph": span("!", "~"),
    "lower": span("a", "z"),
    "print": span(" ", "~"),
    "punct": union(span("!", "/"), span(":", "@"), span("[", "`"), span("{", "~")),
    "space": of("\t\n\v\f\r "),
    "upper": span("A", "Z"),
    "word": union(span("0", "9"), span("A", "Z"), span("a", "z"), of("_")),
    "xdigit": union(span("0", "9"), span("A", "F"), span("a", "f")),
}
# Long names of the general categories that people write; the others are written short.
_LONG_NAMES = {
    "letter": "L",
    "uppercaseletter": "Lu",
    "lowercaseletter": "Ll",
    "titlecaseletter": "Lt",
    "modifierletter": "Lm",
    "otherletter": "Lo",
    "mark": "M",
    "number": "N",
    "decimalnumber": "Nd",
    "punctuation": "P",
    "symbol": "S",
    "separator": "Z",
    "other": "C",
    "control": "Cc",
}


@functools.cache
def _categories() -> dict[str, CharSet]:
    """Every general category and its one-letter group; about 60 ms, once, and only when asked for."""
    found: dict[str, list[int]] = {}
    previous, start = "Cc", 0
    for code_point in range(END + 1):
        category = unicodedata.category(chr(code_point)) if code_point < END else ""
        if category != previous:
            found.setdefault(previous, []).extend((start, code_point))
            previous, start = category, code_point
    table = {name: intersect(tuple(borders), ANY) for name, borders in found.items()}
    groups = {name[0] for name in table}
    return table | {
        group: union(*(borders for name, borders in table.items() if name[0] == group))
        for group in groups
    }


@functools.cache
def digits() -> CharSet:
    """Rust's \\d: Nd."""
    return _categories()["Nd"]


@functools.cache
def words() -> CharSet:
    """Rust's \\w: Alphabetic, marks, decimal digits, connectors, join controls."""
    table = _categories()
    return union(*(table[name] for name in ("L", "M", "Nd", "Nl", "Pc")), _WORD_EXTRAS)


@functools.cache
def property_set(name: str) -> CharSet | None:
    """What `\\p{name}` stands for; None for scripts and other tables that Python does not carry."""
    key, _, value = name.partition("=")
    if value:
        if _plain(key) not in ("gc", "generalcategory"):
            return None
        name = value
    plain = _plain(name)
    if plain == "any":
        return ANY
    if plain == "ascii":
        return ASCII_CLASSES["ascii"]
    if plain in ("whitespace", "space"):
        return SPACE
    table = _categories()
    short = _LONG_NAMES.get(plain, plain[:1].upper() + plain[1:])
    return table.get(short)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


# -------------------------------------------------------------------------------------- letter case


@functools.cache
def _case_groups() -> dict[int, tuple[int, ...]]:
    """Characters that differ only by case (Unicode simple folding); no cased letter lies above U+1FFFF."""
    groups: dict[str, list[int]] = {}
    for code_point in range(0x20000):
        char = chr(code_point)
        if char.lower() != char or char.upper() != char:
            groups.setdefault(_fold(char), []).append(code_point)
    return {
        member: tuple(members)
        for members in groups.values()
        if len(members) > 1
        for member in members
    }


def _fold(char: str) -> str:
    upper = char.upper()
    upper = upper if len(upper) == 1 else char
    lower = upper.lower()
    return lower if len(lower) == 1 else upper


def fold(borders: CharSet) -> CharSet:
    """The set with every other case of its members."""
    extra: list[CharSet] = [
        (other, other + 1)
        for member, group in _case_groups().items()
        if contains(borders, member)
        for other in group
    ]
    return union(borders, *extra)


def representatives(sets: Iterable[CharSet]) -> list[str]:
    """One character from every piece into which the sets cut the alphabet."""
    cuts = sorted({0, *ANY, *(border for borders in sets for border in borders)} - {END})
    return [chr(cut) for cut in cuts if contains(ANY, cut)]
