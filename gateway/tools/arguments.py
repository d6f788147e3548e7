"""The incremental reader of a custom tool's arguments: JSON fragments in, the tool's free text out, at any split.

A function-only model wraps the text of a custom tool into JSON, mostly `{"input": "…"}`. The text must leave as it
comes, and what has left cannot be taken back: the deltas always concatenate to the final input. Four ways to read:

| arguments begin with | way | text |
| --- | --- | --- |
| `{"input": "` | string | un-escaped on the fly |
| `"` | string | un-escaped on the fly |
| `{` and anything else | held | decided at the end: the only key's string, or `input`, or all of it verbatim |
| anything else | verbatim | as it is: the model forgot the JSON |

What follows the closing quote must complete the JSON. If it does not (an unescaped quote in the text, say), it is
appended as the model wrote it: visible, never guessed, never dropped.
"""

import json
import re
from enum import Enum
from typing import Any, Final

# The one field of the function that stands for a custom tool.
INPUT_FIELD: Final = "input"

_INPUT_OPENS = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_MAY_BECOME_INPUT = re.compile(
    r'\s*(?:\{\s*(?:"(?:i(?:n(?:p(?:u(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?'
)
_ONE_KEY = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"', re.DOTALL)
_SPECIAL = re.compile(r'["\\]')
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_HEX_SO_FAR = re.compile(r"[0-9a-fA-F]{0,3}")

_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_ESCAPE_CHARS: Final = 6  # \uXXXX


class Way(Enum):
    """How the arguments are being read."""

    UNDECIDED = "undecided"
    STRING = "string"
    AFTER = "after"
    HELD = "held"
    VERBATIM = "verbatim"


class StringReader:
    """Un-escapes the inside of a JSON string that arrives in pieces.

    Tolerant on purpose (Q28, Q29, Q30): raw control characters stand for themselves, an unknown escape such as `\\d`
    keeps its backslash, half a surrogate pair stays the escape that the model wrote.
    """

    def __init__(self) -> None:
        self._pending = ""
        self.closed = False

    @property
    def pending(self) -> str:
        """An escape that has begun and is not whole yet."""
        return self._pending

    def feed(self, fragment: str) -> tuple[str, str]:
        """Returns (text, rest): the decoded text, and what follows the closing quote once it has come."""
        if not self._pending and not _SPECIAL.search(fragment):
            return fragment, ""
        raw = self._pending + fragment
        self._pending = ""
        out: list[str] = []
        at = 0
        while (found := _SPECIAL.search(raw, at)) is not None:
            out.append(raw[at : found.start()])
            at = found.start()
            if raw[at] == '"':
                self.closed = True
                return "".join(out), raw[at + 1 :]
            escape = _read_escape(raw, at)
            if escape is None:
                self._pending = raw[at:]
                return "".join(out), ""
            text, at = escape
            out.append(text)
        out.append(raw[at:])
        return "".join(out), ""


def _read_escape(raw: str, at: int) -> tuple[str, int] | None:
    """(text, index behind it) of the escape at `raw[at]`, or None while it is not whole."""
    kind = raw[at + 1 : at + 2]
    if not kind:
        return None
    if kind in _ESCAPES:
        return _ESCAPES[kind], at + 2
    if kind != "u":
        return "\\", at + 1
    end = at + _ESCAPE_CHARS
    digits = raw[at + 2 : end]
    if not _HEX4.fullmatch(digits):
        whole_chance = end > len(raw) and _HEX_SO_FAR.fullmatch(digits)
        return None if whole_chance else ("\\", at + 1)
    unit = int(digits, 16)
    if not 0xD800 <= unit <= 0xDFFF:
        return chr(unit), end
    return _read_pair(raw, at, unit)


def _read_pair(raw: str, at: int, high: int) -> tuple[str, int] | None:
    """A surrogate pair, or the lone half as the escape that it is (it could not be encoded as UTF-8)."""
    end = at + _ESCAPE_CHARS
    lone = raw[at:end], end
    if high >= 0xDC00:
        return lone
    second = raw[end : end + _ESCAPE_CHARS]
    if len(second) < _ESCAPE_CHARS:
        is_chance = r"\u".startswith(second[:2]) and _HEX_SO_FAR.fullmatch(second[2:])
        return None if is_chance else lone
    if not second.startswith("\\u") or not _HEX4.fullmatch(second[2:]):
        return lone
    low = int(second[2:], 16)
    if not 0xDC00 <= low <= 0xDFFF:
        return lone
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)), end + _ESCAPE_CHARS


class InputReader:
    """Reads the arguments of one custom call; `feed` and `finish` give the text that may leave now."""

    def __init__(self) -> None:
        self.way = Way.UNDECIDED
        self.is_remainder_kept = False
        self._raw: list[str] = []
        self._string = StringReader()
        self._opening = ""

    def feed(self, fragment: str) -> str:
        """The text that this fragment adds to the input, "" while nothing can be said yet."""
        if self.way is Way.STRING:
            return self._read_string(fragment)
        if self.way is Way.VERBATIM:
            return fragment
        self._raw.append(fragment)
        if self.way is Way.UNDECIDED:
            return self._decide()
        return ""

    def _decide(self) -> str:
        head = "".join(self._raw)
        first = head.lstrip()[:1]
        if not first:
            return ""
        if first == '"':
            opening = head[: head.index('"') + 1]
        elif first != "{":
            self.way = Way.VERBATIM
            return head
        elif (opens := _INPUT_OPENS.match(head)) is not None:
            opening = opens.group()
        else:
            if not _MAY_BECOME_INPUT.fullmatch(head):
                self.way = Way.HELD
            return ""
        self.way = Way.STRING
        self._opening = opening
        self._raw = []
        return self._read_string(head[len(opening) :])

    def _read_string(self, fragment: str) -> str:
        text, rest = self._string.feed(fragment)
        if self._string.closed:
            self.way = Way.AFTER
            self._raw = [rest]
        return text

    @property
    def is_cut(self) -> bool:
        """Whether the text has begun and its end has not come."""
        return self.way is Way.STRING

    def finish(self) -> str:
        """The rest of the text, after the last fragment."""
        raw = "".join(self._raw)
        if self.way is Way.AFTER:
            return self._remainder(raw)
        if self.way is Way.STRING:
            return self._string.pending
        if self.way is Way.VERBATIM:
            return ""
        return unwrap_arguments(raw)

    def _remainder(self, rest: str) -> str:
        if _is_json(f'{self._opening}"{rest}'):
            return ""
        self.is_remainder_kept = True
        return f'"{rest}'


def read_input(arguments: str) -> str:
    """The input of a custom call whose arguments are known as a whole; the same text as any split gives."""
    reader = InputReader()
    return reader.feed(arguments) + reader.finish()


def unwrap_arguments(raw: str) -> str:
    """The text in arguments that begin with `{` but not with the field `input`.

    An object with one key whose value is a string: that string, whatever the key (Q31). An object that has a string
    `input` among other keys: that one. Anything else: the arguments as they are.
    """
    opens = _ONE_KEY.match(raw)
    if opens is not None:
        string = StringReader()
        text, rest = string.feed(raw[opens.end() :])
        if string.closed and rest.strip() == "}":
            return text
    value = _lenient(raw)
    named = value.get(INPUT_FIELD) if isinstance(value, dict) else None
    if isinstance(named, str) and not _has_lone_surrogate(named):
        return named
    return raw


def _lenient(raw: str) -> Any:
    """JSON with raw control characters allowed in strings (Q28); None for what is no JSON.

    The standard library's decoder and not wire.json: only this one can be told to let control characters be.
    """
    try:
        return json.loads(raw, strict=False)
    except (ValueError, RecursionError):
        return None


def _is_json(raw: str) -> bool:
    return _lenient(raw) is not None


def _has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)
