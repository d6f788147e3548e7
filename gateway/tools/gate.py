"""The gate between a custom tool's text and the client: the grammar watches, and unwraps what models wrap.

Text leaves while the grammar can still accept it. From the first character on that no accepted text can have, the rest
is held until the call ends, since only the whole text shows whether one known wrapping (a Markdown fence, say) taken
off makes it match. The deltas that have left are then a prefix of the unwrapped text, or nothing is unwrapped. Without
a grammar, or with one that cannot be checked, everything leaves as it comes.
"""

from typing import Literal

from msgspec import Struct

from gateway.grammar.load import Grammar
from gateway.grammar.unwrap import unwrap

Kind = Literal["valid", "unwrapped", "invalid", "unchecked"]


class CallVerdict(Struct, frozen=True):
    """What the grammar says of one custom call.

    Attributes:
        call_id: of the call.
        name: the tool's public name.
        kind: see docs/protocol.md for an example of each.
        line: of the first bad character, from 1; None unless invalid.
        column: likewise.
        reason: what was expected there, or why nothing was checked; "" when valid.
    """

    call_id: str
    name: str
    kind: Kind
    line: int | None = None
    column: int | None = None
    reason: str = ""

    def note(self) -> str:
        """One line for the log."""
        head = f"{self.name} {self.call_id} grammar={self.kind}"
        return f"{head}: {self.reason}" if self.reason else head


class Gate:
    """Watches the text of one call.

    Args:
        grammar: of the tool.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._checker = grammar.checker()
        self._sent: list[str] = []
        self._held: list[str] = []

    def feed(self, text: str) -> str:
        """The part of the text that may leave now."""
        if self._held:
            self._held.append(text)
            return ""
        before = self._checker.accepted
        self._checker.feed(text)
        if self._checker.ok_prefix:
            self._sent.append(text)
            return text
        good = self._checker.accepted - before
        self._sent.append(text[:good])
        self._held.append(text[good:])
        return text[:good]

    def finish(self, call_id: str, name: str) -> tuple[str, CallVerdict]:
        """The rest of the text, and the verdict on the whole call."""
        verdict = self._checker.finish()
        sent, held = "".join(self._sent), "".join(self._held)
        if verdict.kind == "invalid":
            unwrapped = unwrap(self._grammar, sent + held)
            if unwrapped is not None and unwrapped.startswith(sent):
                found = CallVerdict(call_id, name, "unwrapped", reason=verdict.reason)
                return unwrapped[len(sent) :], found
        place = verdict.line, verdict.column
        return held, CallVerdict(call_id, name, verdict.kind, *place, reason=verdict.reason)
