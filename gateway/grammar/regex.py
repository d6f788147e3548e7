"""Reads a regular expression of the Rust `regex` dialect, which OpenAI's grammars use, into a tree.

Three outcomes: a tree, `RegexError` with the offset (broken in every dialect), or `Unsupported` with the
reason (lookaround, backreferences, and what only other dialects know). Groups only group and laziness
changes no language, so both vanish. Anchors are taken at the two ends, where they say nothing.
"""

from gateway.grammar import chars
from gateway.grammar.chars import CharSet
from gateway.grammar.nodes import EMPTY, NOTHING, Chars, Node, alt, repeat, seq
from gateway.grammar.problems import Unsupported
from gateway.grammar.regex_chars import MAX_GROUP_DEPTH, CharReader, Flags, RegexError, with_flags

# llguidance refuses larger ones too; written out, they would be that many states.
MAX_REPEATS = 10_000

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


def parse(source: str, flags: str = "") -> Node:
    """The tree of a regular expression.

    Raises:
        RegexError: broken.
        Unsupported: not checked here.
    """
    return _Reader(source, with_flags(Flags(), flags, on=True)).read()


class _Reader(CharReader):
    """Recursive descent over the source; every method leaves `at` behind what it has read."""

    def __init__(self, source: str, flags: Flags) -> None:
        super().__init__(source, flags)
        self.at_head = True  # nothing that takes a character has been read in this alternative
        self.anchors = 0

    def read(self) -> Node:
        node = self._choice()
        if self.at < len(self.source):
            raise RegexError("unopened group", self.at)
        return node

    # ------------------------------------------------------------------------------- structure

    def _choice(self) -> Node:
        if self.depth > MAX_GROUP_DEPTH:
            raise Unsupported(f"groups nested more than {MAX_GROUP_DEPTH} deep")
        flags = self.flags  # (?i) holds to the end of the group it stands in
        at_head = self.at_head
        options = [self._sequence()]
        while self.take("|"):
            self.at_head = at_head
            options.append(self._sequence())
        self.flags = flags
        return alt(*options)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while True:
            self._skip_verbose()
            char = self.peek()
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
        letter = self.peek()
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
        while self.flags.verbose and self.peek():
            if self.peek().isspace():
                self.at += 1
            elif self.peek() == "#":
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
            char = self.peek()
            if char in _QUANTIFIERS:
                self.at += 1
                least, most = _QUANTIFIERS[char]
            elif char == "{":
                least, most = self._counts()
            else:
                return node
            self.take("?")  # lazy: fewer first, the same texts
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
        char = self.peek()
        if char == "(":
            return self._group()
        if char == "[":
            return self._chars(self.class_())
        if char == "\\":
            return self._chars(self.escape(in_class=False))
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
        if self.peek() == "?":
            for head, kind in _GROUP_KINDS.items():
                if self.source.startswith(head, self.at):
                    raise Unsupported(f"{kind} in a regular expression")
            if self.take("?P<") or self.take("?<"):
                self._name(start)
            elif self._flag_group(start):
                return EMPTY
        self.depth += 1
        node = self._choice()
        self.depth -= 1
        if not self.take(")"):
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
            letter = self.peek()
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
                self.flags = with_flags(self.flags, letter, on=on)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
