"""How far a text got as JSON: nothing yet, complete, cut short, or malformed otherwise.

Status fields of model servers cannot be trusted on this (Q16, Q17): a call that the token limit cut
is called complete by some. So the text itself is the judge. The scan is tolerant inside strings:
raw control characters (Q28) and unknown escapes (Q29) are what models write, and no sign of a cut.
Knows no call, no item and no wire.
"""

import re
from typing import Literal

Verdict = Literal["empty", "complete", "cut", "malformed"]

# What may come next. A value, a value or `]`, a key or `}`, a key, `:`, or `,` and closers.
_VALUE, _FIRST_VALUE, _FIRST_KEY, _KEY, _COLON, _NEXT = range(6)

_skip_space = re.compile(r"[ \t\r\n]*").match
# Stops at the closing quote, or at a backslash whose partner has not come yet.
_skip_string = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL).match
_scalar_run = re.compile(r"[-+.\w]+").match
_is_scalar = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?").fullmatch
_is_number_prefix = re.compile(r"-?(?:0|[1-9]\d*)?(?:\.\d*)?(?:[eE][+-]?\d*)?").fullmatch

_STRING, _OPEN, _CLOSE, _STEP = range(4)
_VALUES = {'"': (_STRING, _NEXT), "{": (_OPEN, _FIRST_KEY), "[": (_OPEN, _FIRST_VALUE)}
# state -> character -> (action, next state)
_TABLE: dict[int, dict[str, tuple[int, int]]] = {
    _VALUE: _VALUES,
    _FIRST_VALUE: {**_VALUES, "]": (_CLOSE, _NEXT)},
    _FIRST_KEY: {'"': (_STRING, _COLON), "}": (_CLOSE, _NEXT)},
    _KEY: {'"': (_STRING, _COLON)},
    _COLON: {":": (_STEP, _VALUE)},
    _NEXT: {"}": (_CLOSE, _NEXT), "]": (_CLOSE, _NEXT)},
}
_PARTNER = {"}": "{", "]": "["}
_AFTER_COMMA = {"{": _KEY, "[": _VALUE}


class JSONScan:
    """An incremental scan: `feed` may be given the text in any pieces, each is looked at once."""

    __slots__ = ("_broken", "_in_string", "_stack", "_state", "_tail")

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._state = _VALUE
        self._in_string = False
        self._broken = False
        self._tail = ""  # a scalar or an escape whose end is not in sight

    def feed(self, text: str) -> None:
        text = self._tail + text
        self._tail = ""
        position = 0
        while position < len(text) and not self._broken:
            step = self._string_step if self._in_string else self._structure_step
            position = step(text, position)

    def verdict(self) -> Verdict:
        """How far the text fed so far got."""
        if self._broken:
            return "malformed"
        if self._in_string:
            return "cut"
        if self._tail:
            return self._tail_verdict()
        if self._stack:
            return "cut"
        return "complete" if self._state == _NEXT else "empty"

    def _tail_verdict(self) -> Verdict:
        if _is_scalar(self._tail):
            return "cut" if self._stack else "complete"
        words = ("true", "false", "null")
        if _is_number_prefix(self._tail) or any(word.startswith(self._tail) for word in words):
            return "cut"
        return "malformed"

    def _string_step(self, text: str, position: int) -> int:
        match = _skip_string(text, position)
        assert match is not None  # the pattern matches the empty string
        end = match.end()
        if end == len(text):
            return end
        if text[end] == "\\":
            self._tail = "\\"
        else:
            self._in_string = False
        return end + 1

    def _structure_step(self, text: str, position: int) -> int:
        match = _skip_space(text, position)
        assert match is not None  # likewise
        position = match.end()
        if position == len(text):
            return position
        char = text[position]
        row = _TABLE[self._state].get(char)
        if row is not None:
            self._act(char, *row)
        elif char == "," and self._state == _NEXT and self._stack:
            self._state = _AFTER_COMMA[self._stack[-1]]
        elif self._state in (_VALUE, _FIRST_VALUE):
            return self._scalar_step(text, position)
        else:
            self._broken = True
        return position + 1

    def _act(self, char: str, action: int, state: int) -> None:
        if action == _OPEN:
            self._stack.append(char)
        elif action == _CLOSE and (not self._stack or self._stack.pop() != _PARTNER[char]):
            self._broken = True
        self._in_string = action == _STRING
        self._state = state

    def _scalar_step(self, text: str, position: int) -> int:
        run = _scalar_run(text, position)
        if run is None:
            self._broken = True
            return position
        if run.end() == len(text):
            self._tail = run.group()
        elif _is_scalar(run.group()):
            self._state = _NEXT
        else:
            self._broken = True
        return run.end()


def json_verdict(text: str) -> Verdict:
    """The verdict on a whole text."""
    scan = JSONScan()
    scan.feed(text)
    return scan.verdict()


def is_cut_json(text: str) -> bool:
    """Whether `text` is the beginning of JSON whose end is missing, and not wrong otherwise."""
    return json_verdict(text) == "cut"
