"""What lowering knows of a conversation, kept beside its history, so that a turn lowers only what is new.

A thread is what one pass over all items gives: tool table, pairing, lowered items. It grows in place, and therefore
belongs to one turn at a time: a history hands it out once (`Grown.take`), and whoever finds it taken, or unfit, makes
a new one from the items. Both ways give the same.
"""

from typing import Final

from gateway.tools.options import ToolOptions
from gateway.tools.table import ToolTable
from gateway.turn.lowering import lower_steps
from gateway.turn.pairing import ABORTED, Pairing
from gateway.wire.json import JSON

# Items that change more than their own place: the table, or (compaction) all that was before them.
_WIDE: Final = frozenset(
    {"additional_tools", "tool_search_output", "compaction", "compaction_summary"}
)


class Thread:
    """A lowered conversation.

    Args:
        tools: the request's own.
        items: the whole history with the new input, expanded.
        options: see `ToolOptions`.
        count: how many items of the history these stand for; compaction makes fewer of more.
        unanswered: what stands in the place of an output that never came.

    Raises:
        RequestError: an orphan output, a tool that cannot be declared.
    """

    def __init__(
        self,
        tools: list[JSON],
        items: list[JSON],
        options: ToolOptions,
        *,
        count: int | None = None,
        unanswered: str = ABORTED,
    ) -> None:
        self.table = ToolTable.build(tools, items, options)
        self.call_ids: set[str] = set()
        self.count = len(items) if count is None else count
        self._tools = tools
        self._options = options
        self._unanswered = unanswered
        self._pairing = Pairing()
        self._lowered: list[JSON] = []
        self._add(items)
        self._pairing.is_rewritten = False  # nothing had been lowered before

    def grow(self, tools: list[JSON], items: list[JSON], options: ToolOptions) -> bool:
        """Adds what follows; False when only a new thread can say what becomes of the whole.

        Args:
            tools: the request's own, now.
            items: the items behind those that are known.
            options: as they are now.

        Raises:
            RequestError: an orphan output. The thread is of no use then.
        """
        if tools != self._tools or options != self._options:
            return False
        if any(item.get("type") in _WIDE for item in items):
            return False
        self._add(items)
        self.count += len(items)
        return not self._pairing.is_rewritten

    def _add(self, items: list[JSON]) -> None:
        for item in items:
            call_id = item.get("call_id")
            if isinstance(call_id, str):
                self.call_ids.add(call_id)
            self._pairing.add(item)
        self._lowered += lower_steps(self._pairing.take(), self.table, self._unanswered)

    def lowered(self) -> list[JSON]:
        """All items as they go upstream, as if the conversation ended here."""
        answers = self._pairing.open_answers()
        return [*self._lowered, *lower_steps(answers, self.table, self._unanswered)]

    def check(self, pending: frozenset[str]) -> None:
        """Whether each of these call_ids has an output.

        Raises:
            RequestError: one has none.
        """
        self._pairing.check(pending)

    def unanswered(self) -> list[JSON]:
        """The calls without an output, in order."""
        return self._pairing.unanswered()

    @property
    def notes(self) -> list[str]:
        """What was left out, for the log."""
        return [*self.table.notes, *self._pairing.notes]


class Grown:
    """Holds a thread for the one turn that grows it."""

    def __init__(self, thread: Thread) -> None:
        self._thread: Thread | None = thread

    def take(self) -> Thread | None:
        """The thread, once."""
        thread, self._thread = self._thread, None
        return thread
