"""Resolves definitions into lexemes (trees of characters) and rules (trees of lexemes and calls).

Only what `start` reaches is looked at, as in llguidance. A lexeme that may be empty is written (lexeme)? in
its rule, for any expression, not only `/(.*)/`: the lexer itself never yields an empty one. Recursion at
the ends of a rule (`list: item | list "," item`) becomes repetition, so that only true nesting is left.
"""

from dataclasses import dataclass, field

from gateway.grammar import chars, definitions, lark, nodes, regex
from gateway.grammar.nodes import (
    EMPTY,
    Alt,
    Call,
    Chars,
    Node,
    Repeat,
    Seq,
    Token,
    alt,
    repeat,
    seq,
)
from gateway.grammar.problems import GrammarSyntaxError, Unsupported
from gateway.grammar.regex_chars import RegexError

# States of one lexeme, counted repeats written out. Codex's grammars have under 200 in all; a step of the
# automaton may visit each of them.
MAX_LEXEME_STATES = 10_000
# Definitions inside definitions inside …: trees are walked by recursion, and Python's stack is finite.
MAX_REFERENCE_DEPTH = 60
# Distinct lexemes of one grammar; SQL has some 600 keywords.
MAX_LEXEMES = 2_000

START = "start"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """What the lexer may yield: `shown` is how messages name it."""

    shown: str
    tree: Node
    priority: int = 0


@dataclass(slots=True)
class Rules:
    """A resolved grammar; `rules` are trees of Token and Call, `ignored` is a tree of characters."""

    lexemes: list[Lexeme] = field(default_factory=list)
    rules: dict[str, Node] = field(default_factory=dict)
    ignored: Node | None = None

    @property
    def recursive(self) -> bool:
        """Whether some rule can contain itself."""
        done: set[str] = set()
        for root in self.rules:
            path: list[tuple[str, list[str]]] = [(root, _called(self.rules[root]))]
            while path and root not in done:
                rule, left = path[-1]
                if not left:
                    done.add(rule)
                    path.pop()
                    continue
                called = left.pop()
                if any(called == above for above, _ in path):
                    return True
                if called not in done:
                    path.append((called, _called(self.rules[called])))
        return False


def of_regex(source: str) -> Rules:
    """A format of syntax `regex`: one lexeme, the whole text."""
    try:
        tree = regex.parse(source)
    except RegexError as error:
        raise GrammarSyntaxError.at(error.message, source, error.offset) from None
    if nodes.weight(tree) > MAX_LEXEME_STATES:
        raise Unsupported(f"a regular expression of more than {MAX_LEXEME_STATES} states")
    found = Rules(lexemes=[Lexeme("the expression", tree)])
    found.rules[START] = alt(Token(0), EMPTY) if nodes.nullable(tree) else Token(0)
    return found


def of_lark(text: str) -> Rules:
    """A format of syntax `lark`."""
    return _Resolver(lark.read(text)).resolve()


class _Resolver:
    def __init__(self, found: definitions.Definitions) -> None:
        self.found = found
        self.result = Rules()
        self.tokens: dict[object, Node] = {}
        self.terminals: dict[str, tuple[Node, int]] = {}
        self.open: list[str] = []
        self.depth = 0

    def resolve(self) -> Rules:
        if START not in self.found.rules:
            raise GrammarSyntaxError("there is no rule named 'start'", 1, 1)
        waiting = [START]
        while waiting:
            name = waiting.pop(0)
            if name not in self.result.rules:
                tree = self.rule(self.found.rules[name])
                self.result.rules[name] = without_end_recursion(name, tree)
                waiting.extend(_called(tree))
        if self.found.ignored:
            trees = [self.characters(group) for group in self.found.ignored]
            self.result.ignored = alt(*(tree for tree, _ in trees))
        return self.result

    # -------------------------------------------------------------------------------- rules

    def rule(self, expr: definitions.Expr) -> Node:
        match expr:
            case definitions.Group(options):
                return alt(*(seq(*(self.rule(part) for part in option)) for option in options))
            case definitions.Times(body, least, most):
                return repeat(self.rule(body), least, most)
            case definitions.Name(name) if name in self.found.rules:
                return Call(name)
            case definitions.Name(name):
                return self.token(name, name, expr, self.found.priorities.get(name, 0))
            case definitions.Text(value="", source=_):
                return EMPTY
            case _:
                return self.token((type(expr), expr.source), expr.source, expr, 0)

    def token(self, key: object, shown: str, expr: definitions.Expr, priority: int) -> Node:
        if key not in self.tokens:
            if len(self.result.lexemes) >= MAX_LEXEMES:
                raise Unsupported(f"more than {MAX_LEXEMES} distinct terminals")
            tree, _ = self.characters(expr)
            token = Token(len(self.result.lexemes))
            self.result.lexemes.append(Lexeme(shown, tree, priority))
            self.tokens[key] = alt(token, EMPTY) if nodes.nullable(tree) else token
        return self.tokens[key]

    # ---------------------------------------------------------------------------- terminals

    def characters(self, expr: definitions.Expr) -> tuple[Node, int]:
        """The tree of a terminal and its size; the size is checked before anything grows to it."""
        self.depth += 1
        if self.depth > MAX_REFERENCE_DEPTH:
            raise Unsupported(f"definitions nested more than {MAX_REFERENCE_DEPTH} deep")
        tree, size = self._characters(expr)
        self.depth -= 1
        return tree, _checked(size)

    def _characters(self, expr: definitions.Expr) -> tuple[Node, int]:
        match expr:
            case definitions.Group(options):
                trees, size = [], 1
                for option in options:
                    parts = []
                    for part in option:
                        tree, part_size = self.characters(part)
                        size = _checked(size + part_size)
                        parts.append(tree)
                    trees.append(seq(*parts))
                return alt(*trees), size
            case definitions.Times(body, least, most):
                tree, size = self.characters(body)
                tree = repeat(tree, least, most)
                return tree, nodes.weight(tree)
            case definitions.Name():
                return self.terminal(expr)
            case definitions.Text(value, ignore_case):
                tree = nodes.literal(value)
                return (_folded(tree) if ignore_case else tree), len(value) + 1
            case definitions.Span(first, last):
                return Chars(chars.span(first, last)), 1
            case _:
                try:
                    tree = regex.parse(expr.body, expr.flags)
                except RegexError as error:
                    place = expr.offset + error.offset
                    raise GrammarSyntaxError.at(error.message, self.found.text, place) from None
                return tree, nodes.weight(tree)

    def terminal(self, name: definitions.Name) -> tuple[Node, int]:
        if name.value in self.terminals:
            return self.terminals[name.value]
        if name.value in self.open:
            raise self._error(f"{name.value!r} contains itself", name)
        self.open.append(name.value)
        if name.value in self.found.terminals:
            result = self.characters(self.found.terminals[name.value])
        elif name.value in self.found.imports:
            result = self.common(self.found.imports[name.value])
        else:
            raise self._error(f"{name.value!r} is not defined", name)
        self.open.pop()
        self.terminals[name.value] = result
        return result

    def common(self, name: str) -> tuple[Node, int]:
        """A terminal of the common library, read in a small grammar of its own."""
        body = definitions.COMMON[name]
        library = lark.read(f"{name}: {body}\n")
        library.imports = {other: other for other in definitions.COMMON if other != name}
        return _Resolver(library).characters(library.terminals[name])

    def _error(self, message: str, name: definitions.Name) -> GrammarSyntaxError:
        return GrammarSyntaxError.at(message, self.found.text, name.offset)


def _checked(size: int) -> int:
    if size > MAX_LEXEME_STATES:
        raise Unsupported(f"a terminal of more than {MAX_LEXEME_STATES} states")
    return size


def _folded(tree: Node) -> Node:
    parts = tree.parts if isinstance(tree, Seq) else (tree,)
    return seq(*(Chars(chars.fold(part.borders)) for part in parts if isinstance(part, Chars)))


def _called(tree: Node) -> list[str]:
    """The rules that a tree names, in order."""
    match tree:
        case Call(rule):
            return [rule]
        case Seq(children) | Alt(children):
            found = [rule for child in children for rule in _called(child)]
            return list(dict.fromkeys(found))
        case Repeat(body):
            return _called(body)
        case _:
            return []


# ---------------------------------------------------------------------------------------- recursion


def without_end_recursion(rule: str, tree: Node) -> Node:
    """The same language with a rule's calls of itself at the ends of its alternatives as repetition.

    With B the alternatives without such calls, `a: a S | P a | a J a | B` is x (J x)* with x = P* B S*.
    """
    prefixes: list[Node] = []
    suffixes: list[Node] = []
    joints: list[Node] = []
    bases: list[Node] = []
    itself = Call(rule)
    for parts in _alternatives(tree, itself):
        head, tail = parts[:1] == (itself,), parts[-1:] == (itself,)
        if parts == (itself,):
            continue
        if head and tail:
            joints.append(seq(*parts[1:-1]))
        elif head:
            suffixes.append(seq(*parts[1:]))
        elif tail:
            prefixes.append(seq(*parts[:-1]))
        else:
            bases.append(seq(*parts))
    if not (prefixes or suffixes or joints):
        return alt(*bases)
    one = seq(repeat(alt(*prefixes), 0, None), alt(*bases), repeat(alt(*suffixes), 0, None))
    return seq(one, repeat(seq(alt(*joints), one), 0, None)) if joints else one


def _alternatives(tree: Node, itself: Call) -> list[tuple[Node, ...]]:
    """A rule's alternatives; `item ("," list)?` counts as two, so that its call stands at the end."""
    found: list[tuple[Node, ...]] = []
    waiting = list(reversed(tree.options if isinstance(tree, Alt) else (tree,)))
    while waiting:
        option = waiting.pop()
        parts = option.parts if isinstance(option, Seq) else (option,)
        last = parts[-1] if parts else EMPTY
        if isinstance(last, Repeat) and (last.least, last.most) == (0, 1):
            last = alt(last.body, EMPTY)
        if isinstance(last, Alt) and any(_ends(inner, itself) for inner in last.options):
            waiting.extend(seq(*parts[:-1], inner) for inner in reversed(last.options))
        else:
            found.append(parts)
    return found


def _ends(tree: Node, itself: Call) -> bool:
    return (tree.parts[-1:] == (itself,)) if isinstance(tree, Seq) else tree == itself
