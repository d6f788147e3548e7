"""Reads a grammar in OpenAI's dialect of Lark (llguidance's) into definitions; resolves nothing.

Read by hand rather than by lark's own loader: the text is a stranger's, so its cost must be linear, and
`/(.*)/`, `{1,3}` and `#` comments, which lark refuses, are ordinary here. What neither engine could run
is a `GrammarSyntaxError` with line and column; what only others could is `Unsupported`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.grammar.definitions import (
    COMMON,
    Definitions,
    Expr,
    Group,
    Name,
    Pattern,
    Span,
    Text,
    Times,
)
from gateway.grammar.problems import GrammarSyntaxError, Unsupported

# People nest three or four brackets. Reading is recursive, and Python's stack is finite.
MAX_BRACKET_DEPTH = 30
# As in regular expressions: written out, a repeat is that many states.
MAX_REPEATS = 10_000

_LEXEMES = re.compile(
    r"""(?P<skip>[ \t\f]+|(?:\#|//)[^\n]*)
      | (?P<newline>\r?\n)
      | (?P<string>"(?:[^"\\\n]|\\[^\n])*"i?)
      | (?P<regexp>/(?:[^/\\]|\\.)+/[a-zA-Z]*)
      | (?P<rule>!?[_?]?[a-z][_a-z0-9-]*)
      | (?P<terminal>_*[A-Z][_A-Z0-9-]*)
      | (?P<number>[+-]?[0-9]+)
      | (?P<directive>%[a-z]+)
      | (?P<special><[^<>\s]+>|@[A-Za-z0-9_-]*)
      | (?P<mark>->|\.\.|[:|()\[\]{},.~+*?=&])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b", "v": "\v"} | {
    char: char for char in "\"'\\/"
}
_ESCAPE = re.compile(
    r"\\(?:(?P<hex>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|u\{[0-9a-fA-F]{1,6}\})|(?P<plain>.))"
)
_STOPS = ("newline", "end")
_UNSUPPORTED_DIRECTIVES = {
    "%declare": "%declare: a lexer of the caller's own",
    "%override": "%override",
    "%extend": "%extend",
    "%json": "%json, a JSON schema inside the grammar",
    "%regex": "%regex, a structured expression",
    "%llguidance": "%llguidance options",
    "%lark": "%lark, a grammar inside the grammar",
}


@dataclass(frozen=True, slots=True)
class _Lexeme:
    kind: str
    text: str
    offset: int


def read(text: str) -> Definitions:
    """The definitions in a grammar's text.

    Raises:
        GrammarSyntaxError: no engine could read it.
        Unsupported: it uses what is not checked here.
    """
    return _Reader(text).read()


def _lexemes(text: str) -> Iterator[_Lexeme]:
    """Lexemes without blanks and comments; line ends count, except in front of `|` (as in lark)."""
    at, pending = 0, None
    while at < len(text):
        match = _LEXEMES.match(text, at)
        if match is None or match.lastgroup is None:
            raise GrammarSyntaxError.at(f"unexpected {text[at]!r}", text, at)
        kind, value = match.lastgroup, match.group()
        lexeme = _Lexeme(value if kind == "mark" else kind, value, at)
        at = match.end()
        if kind == "newline":
            pending = pending or lexeme
        elif kind != "skip":
            if pending is not None and value != "|":
                yield pending
            pending = None
            yield lexeme
    if pending is not None:
        yield pending
    yield _Lexeme("end", "", len(text))


class _Reader:
    """Recursive descent over the lexemes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found = Definitions(text)
        self.lexemes = _lexemes(text)
        self.now = next(self.lexemes)
        self.depth = 0

    def read(self) -> Definitions:
        while self.now.kind != "end":
            if not self._take("newline"):
                self._statement()
        return self.found

    def _error(self, expected: str) -> GrammarSyntaxError:
        seen = "the end of the line" if self.now.kind in _STOPS else repr(self.now.text[:40])
        return GrammarSyntaxError.at(
            f"expected {expected}, found {seen}", self.text, self.now.offset
        )

    def _next(self) -> _Lexeme:
        lexeme = self.now
        self.now = next(self.lexemes, lexeme)  # nothing follows the end but the end
        return lexeme

    def _take(self, kind: str) -> bool:
        if self.now.kind == kind:
            self._next()
            return True
        return False

    def _expect(self, kind: str, called: str = "") -> _Lexeme:
        if self.now.kind != kind:
            raise self._error(called or repr(kind))
        return self._next()

    # --------------------------------------------------------------------------- statements

    def _statement(self) -> None:
        if self.now.kind in ("rule", "terminal"):
            self._definition()
        elif self.now.kind == "directive":
            self._directive()
        else:
            raise self._error("a rule, a terminal or a directive")
        if self.now.kind != "end":
            self._expect("newline", "the end of the line")

    def _definition(self) -> None:
        name = self._next()
        if self.now.kind == "{":
            raise Unsupported("templates")
        priority = 0
        if self._take("."):
            priority = int(self._expect("number", "a priority").text)
        if self.now.kind == "[":
            raise Unsupported("options of a rule in brackets (stop, lazy, max_tokens …)")
        self._expect(":")
        body = self._choice()
        table = self.found.rules if name.kind == "rule" else self.found.terminals
        key = name.text.lstrip("!?") if name.kind == "rule" else name.text
        if key in table or key in self.found.imports:
            raise GrammarSyntaxError.at(f"{key!r} is defined twice", self.text, name.offset)
        table[key] = body
        if priority and name.kind == "terminal":
            self.found.priorities[key] = priority

    def _directive(self) -> None:
        directive = self._next()
        if directive.text == "%ignore":
            self.found.ignored.append(self._choice())
        elif directive.text == "%import":
            self._import()
        elif directive.text in _UNSUPPORTED_DIRECTIVES:
            raise Unsupported(_UNSUPPORTED_DIRECTIVES[directive.text])
        else:
            message = f"unknown directive {directive.text!r}"
            raise GrammarSyntaxError.at(message, self.text, directive.offset)

    def _import(self) -> None:
        path: list[str] = []
        while self.now.kind in (".", "rule", "terminal"):
            path.append(self._next().text)
        names: dict[str, str] = {}
        if self._take("("):
            while not self._take(")"):
                name = self._expect("terminal", "the name of a terminal").text
                names[name] = name
                self._take(",")
        elif not path:
            raise self._error("what to import")
        else:
            name = path.pop()
            path = path[:-1] if path[-1:] == ["."] else path
            alias = self._import_alias() if self._take("->") else name
            names[alias] = name
        if path != ["common"]:
            raise Unsupported("imports other than %import common")
        for alias, name in names.items():
            if name not in COMMON:
                raise Unsupported(f"common.{name[:40]}, which OpenAI's dialect does not know")
            self.found.imports[alias] = name

    def _import_alias(self) -> str:
        if self.now.kind not in ("rule", "terminal"):
            raise self._error("a name")
        return self._next().text

    # -------------------------------------------------------------------------- expressions

    def _choice(self) -> Group:
        self.depth += 1
        if self.depth > MAX_BRACKET_DEPTH:
            raise Unsupported(f"brackets nested more than {MAX_BRACKET_DEPTH} deep")
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self.depth -= 1
        return Group(tuple(options))

    def _sequence(self) -> tuple[Expr, ...]:
        parts: list[Expr] = []
        while True:
            while self.depth > 1 and self._take("newline"):
                pass  # lark allows line ends inside brackets
            if self.now.kind in ("|", ")", "]") or self.now.kind in _STOPS:
                return tuple(parts)
            if self._take("->"):
                self._expect("rule", "the name of an alias")
                return tuple(parts)
            parts.append(self._repeated())

    def _repeated(self) -> Expr:
        body = self._atom()
        if self._take("*"):
            return Times(body, 0, None)
        if self._take("+"):
            return Times(body, 1, None)
        if self._take("?"):
            return Times(body, 0, 1)
        if self._take("~"):
            least = self._count()
            return Times(body, *self._checked(least, self._count() if self._take("..") else least))
        if self._take("{"):
            least = 0 if self.now.kind == "," else self._count()
            most: int | None = least
            if self._take(","):
                most = None if self.now.kind == "}" else self._count()
            self._expect("}")
            return Times(body, *self._checked(least, most))
        return body

    def _count(self) -> int:
        number = self._expect("number", "a number")
        if len(number.text) > 6 or int(number.text) > MAX_REPEATS:
            raise Unsupported(f"a repeat count above {MAX_REPEATS}")
        if int(number.text) < 0:
            raise GrammarSyntaxError.at("a repeat count below 0", self.text, number.offset)
        return int(number.text)

    def _checked(self, least: int, most: int | None) -> tuple[int, int | None]:
        if most is not None and most < least:
            raise GrammarSyntaxError.at(
                "a repeat count whose end is below its start", self.text, self.now.offset
            )
        return least, most

    def _atom(self) -> Expr:
        lexeme = self.now
        if lexeme.kind in ("(", "["):
            self._next()
            group = self._choice()
            self._expect(")" if lexeme.kind == "(" else "]")
            return group if lexeme.kind == "(" else Times(group, 0, 1)
        if lexeme.kind == "string":
            return self._string()
        if lexeme.kind == "regexp":
            self._next()
            body, _, flags = lexeme.text[1:].rpartition("/")
            return Pattern(body, flags, lexeme.offset + 1, lexeme.text)
        if lexeme.kind in ("rule", "terminal") and lexeme.text[0] not in "!?":
            self._next()
            if self.now.kind == "{" and not self._is_count():
                raise Unsupported("templates")
            return Name(lexeme.text, lexeme.offset)
        if lexeme.kind in ("&", "~"):
            raise Unsupported("& and ~ of regular expressions")
        if lexeme.kind == "special":
            raise Unsupported("special tokens and other grammars (<…>, @…)")
        if lexeme.kind == "directive" and lexeme.text in _UNSUPPORTED_DIRECTIVES:
            raise Unsupported(_UNSUPPORTED_DIRECTIVES[lexeme.text])
        raise self._error("a string, a regular expression, a name or a bracket")

    def _is_count(self) -> bool:
        """Whether the brace under the reader holds a count, `x{2}`, and not a template's argument."""
        inside = self.text[self.now.offset + 1 : self.now.offset + 20]
        return inside.lstrip()[:1] in "0123456789,"

    def _string(self) -> Expr:
        lexeme = self._next()
        if not self._take(".."):
            value = self._unescape(lexeme)
            return Text(value, lexeme.text.endswith("i"), lexeme.offset, lexeme.text)
        end = self._expect("string", "the end of a range")
        first, last = self._unescape(lexeme), self._unescape(end)
        if len(first) != 1 or len(last) != 1 or last < first:
            raise GrammarSyntaxError.at("a range that is none", self.text, lexeme.offset)
        return Span(first, last, lexeme.offset, f"{lexeme.text}..{end.text}")

    def _unescape(self, lexeme: _Lexeme) -> str:
        def one(match: re.Match[str]) -> str:
            if match["hex"]:
                code_point = int(match["hex"][1:].strip("{}"), 16)
                if code_point > 0x10FFFF:
                    raise GrammarSyntaxError.at(
                        "an escape that is no character", self.text, lexeme.offset
                    )
                return chr(code_point)
            if match["plain"] not in _ESCAPES:
                raise Unsupported(f"the escape \\{match['plain']} in a string")
            return _ESCAPES[match["plain"]]

        value = _ESCAPE.sub(one, lexeme.text.removesuffix("i")[1:-1])
        try:  # two halves of a pair, written as \ud83d\ude00, are one character
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            message = "half a surrogate pair in a string"
            raise GrammarSyntaxError.at(message, self.text, lexeme.offset) from None
