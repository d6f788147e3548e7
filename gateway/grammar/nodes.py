"""The tree that both regular expressions and rules become: characters, tokens, calls; sequence, choice, repeat.

The constructors `seq`, `alt` and `repeat` keep trees small (single characters of a choice become one class),
so everything behind them can be plain recursion over six shapes. Depth is bounded where trees are made.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.grammar import chars
from gateway.grammar.chars import CharSet


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    borders: CharSet


@dataclass(frozen=True, slots=True)
class Token:
    """One lexeme; only in the trees of rules."""

    index: int


@dataclass(frozen=True, slots=True)
class Call:
    """One rule; only in the trees of rules."""

    rule: str


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alt:
    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`least` to `most` times; None is without end."""

    body: "Node"
    least: int
    most: int | None


Node = Chars | Token | Call | Seq | Alt | Repeat

EMPTY = Seq(())  # matches the empty text
NOTHING = Alt(())  # matches no text at all


def seq(*parts: Node) -> Node:
    flat: list[Node] = []
    for part in parts:
        if part == NOTHING:
            return NOTHING
        flat.extend(part.parts if isinstance(part, Seq) else (part,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def alt(*options: Node) -> Node:
    """A choice; all its single characters become one class, at the place of the first."""
    flat: dict[Node, None] = {}
    first_class: Chars | None = None
    classes: list[CharSet] = []
    for option in options:
        for inner in option.options if isinstance(option, Alt) else (option,):
            if isinstance(inner, Chars):
                first_class = first_class or inner
                classes.append(inner.borders)
                inner = first_class
            flat[inner] = None
    if first_class is not None:
        merged = Chars(chars.union(*classes))
        flat = {merged if option is first_class else option: None for option in flat}
    if EMPTY in flat and any(nullable(option) for option in flat if option != EMPTY):
        del flat[EMPTY]
    return next(iter(flat)) if len(flat) == 1 else Alt(tuple(flat))


def repeat(body: Node, least: int, most: int | None) -> Node:
    if most == 0 or body == EMPTY:
        return EMPTY
    if body == NOTHING:
        return EMPTY if least == 0 else NOTHING
    if (least, most) == (1, 1):
        return body
    if most is None and isinstance(body, Repeat) and (body.least, body.most) == (0, 1):
        return Repeat(body.body, 0, None)  # (x?)*, (x?)+
    if isinstance(body, Repeat) and most is body.most is None and max(least, body.least) <= 1:
        return Repeat(body.body, min(least, body.least), None)  # (x*)*, (x+)*, (x*)+, (x+)+
    return Repeat(body, least, most)


def literal(text: str) -> Node:
    """A text as it stands; half a surrogate pair is no character, so it matches nothing."""
    return seq(
        *(NOTHING if "\ud800" <= char <= "\udfff" else Chars(chars.of(char)) for char in text)
    )


def nullable(node: Node, calls: Callable[[str], bool] = lambda rule: False) -> bool:
    """Whether the empty text matches; `calls` answers it for rules."""
    match node:
        case Chars() | Token():
            return False
        case Call(rule):
            return calls(rule)
        case Seq(parts):
            return all(nullable(part, calls) for part in parts)
        case Alt(options):
            return any(nullable(option, calls) for option in options)
        case _:
            return node.least == 0 or nullable(node.body, calls)


def weight(node: Node) -> int:
    """How many automaton states the tree will take, counted repeats written out."""
    match node:
        case Seq(parts):
            return 1 + sum(weight(part) for part in parts)
        case Alt(options):
            return 1 + sum(weight(option) for option in options)
        case Repeat(body, least, most):
            return 1 + weight(body) * max(1, least if most is None else most)
        case _:
            return 1
