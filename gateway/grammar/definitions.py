"""What a grammar's text says, before names are resolved; and what `%import common` brings."""

from dataclasses import dataclass, field

COMMON = {
    "DIGIT": '"0".."9"',
    "HEXDIGIT": "/[a-fA-F0-9]/",
    "INT": "/[0-9]+/",
    "SIGNED_INT": "/[+-]?[0-9]+/",
    "DECIMAL": r"/[0-9]+\.[0-9]*|\.[0-9]+/",
    "_EXP": "/[eE][+-]?[0-9]+/",
    "FLOAT": r"/[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?/",
    "SIGNED_FLOAT": "/[+-]?/ FLOAT",
    "NUMBER": "FLOAT | INT",
    "SIGNED_NUMBER": "/[+-]?/ NUMBER",
    "ESCAPED_STRING": r'/"([^"\\]|\\[^\n])*"/',
    "LCASE_LETTER": "/[a-z]/",
    "UCASE_LETTER": "/[A-Z]/",
    "LETTER": "/[A-Za-z]/",
    "WORD": "/[A-Za-z]+/",
    "CNAME": "/[_A-Za-z][_A-Za-z0-9]*/",
    "WS_INLINE": r"/[ \t]+/",
    "WS": r"/[ \t\f\r\n]+/",
    "CR": r"/\r/",
    "LF": r"/\n/",
    "NEWLINE": r"/(\r?\n)+/",
    "SH_COMMENT": r"/#[^\n]*/",
    "CPP_COMMENT": r"/\/\/[^\n]*/",
    "C_COMMENT": r"/\/\*([^*]|\*+[^*\/])*\*+\//",
    "SQL_COMMENT": r"/--[^\n]*/",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted string, unescaped."""

    value: str
    ignore_case: bool
    offset: int
    source: str


@dataclass(frozen=True, slots=True)
class Span:
    """`"a".."z"`"""

    first: str
    last: str
    offset: int
    source: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression between slashes; read when something uses it."""

    body: str
    flags: str
    offset: int
    source: str


@dataclass(frozen=True, slots=True)
class Name:
    """A rule or a terminal."""

    value: str
    offset: int


@dataclass(frozen=True, slots=True)
class Group:
    """Alternatives of sequences."""

    options: tuple[tuple["Expr", ...], ...]


@dataclass(frozen=True, slots=True)
class Times:
    body: "Expr"
    least: int
    most: int | None


Expr = Text | Span | Pattern | Name | Group | Times


@dataclass(slots=True)
class Definitions:
    """What a grammar's text says; `imports` are names of the common library, by the name used here."""

    text: str
    rules: dict[str, Group] = field(default_factory=dict)
    terminals: dict[str, Group] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    ignored: list[Group] = field(default_factory=list)
