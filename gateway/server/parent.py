"""What a request continues, and the row that a later request continues from."""

from collections.abc import Sequence

import msgspec

from gateway.errors import RequestError
from gateway.store.protocol import Link, Row
from gateway.turn.history import History
from gateway.turn.turn import Turn
from gateway.wire.json import JSON, dumps, loads

# No response has this id: a row that follows it has no whole chain, so nothing can continue it.
NEVER = "resp_never"


class Parent(msgspec.Struct, frozen=True):
    """What a request continues.

    Attributes:
        id: of the response; None at the start of a chain.
        history: what was said until then.
        is_stored: the store has it.
        size: of the history, in bytes of JSON.
        mark: the store's, at which it had all that this continues (`Store.whole`); None when it was not asked.
    """

    id: str | None = None
    history: History = History()
    is_stored: bool = False
    size: int = 0
    mark: bytes | None = None

    def next(self, turn: Turn, *, is_stored: bool) -> "Parent":
        """What is continued from after this turn."""
        history = turn.next_history()
        fresh = [*turn.new_items, *turn.given_output]
        is_grown = len(history.items) == len(self.history.items) + len(fresh)
        size = self.size + size_of(fresh) if is_grown else size_of(history.items)
        return Parent(turn.response["id"], history, is_stored, size, self.mark)


class PackedParent(msgspec.Struct, frozen=True):
    """The same as JSON text: half the memory, for a conversation that nobody is waiting for."""

    id: str | None
    is_stored: bool
    pending: frozenset[str]
    data: bytes

    @classmethod
    def of(cls, parent: Parent) -> "PackedParent":
        """Pack; what was lowered already goes, and is lowered anew when it is wanted."""
        history = parent.history
        return cls(parent.id, parent.is_stored, history.pending, dumps(list(history.items)))

    def unpack(self) -> Parent:
        """The parent again."""
        history = History(items=tuple(loads(self.data)), pending=self.pending)
        return Parent(self.id, history, self.is_stored, len(self.data))


def size_of(items: Sequence[JSON]) -> int:
    """Of items, in bytes of JSON."""
    return len(dumps(list(items)))


def parent_of(id: str, links: list[Link]) -> Parent:
    """The stored response with all that it continues.

    Raises:
        RequestError: `previous_response_not_found`.
    """
    if not links:
        raise not_found(id)
    turns: list[tuple[list[JSON], list[JSON]]] = []
    for link in links:
        turns.append((link.prefix, []))
        turns.append(([] if link.starts_over else link.input, link.given))
    history = History.from_rows(turns)
    return Parent(id, history, is_stored=True, size=size_of(history.items))


def row_of(turn: Turn, parent: Parent, history: History, owner: str) -> Row:
    """This turn's row: what it adds to its parent, and the parent itself when nobody stored that."""
    before = parent.history.items
    added = len(turn.new_items) + len(turn.given_output)
    starts_over = len(history.items) != len(before) + added  # a compaction
    follows = parent.is_stored and not starts_over
    return Row(
        id=turn.response["id"],
        owner=owner,
        created_at=turn.response["created_at"],
        response=turn.response,
        input=turn.new_items,
        given=turn.given_output,
        previous_id=parent.id if follows else None,
        prefix=[] if follows or starts_over else list(before),
        starts_over=starts_over,
    )


def unfinished_row(turn: Turn, owner: str) -> Row:
    """A row to be read by its id and never to be continued: a background response before or without its good end."""
    return Row(
        id=turn.response["id"],
        owner=owner,
        created_at=turn.response["created_at"],
        response=turn.response,
        input=turn.new_items,
        given=[],
        previous_id=NEVER,
    )


def not_found(id: str) -> RequestError:
    """The documented error of a continuation that is not there."""
    return RequestError(
        f"Previous response with id '{id}' not found.",
        code="previous_response_not_found",
        param="previous_response_id",
    )
