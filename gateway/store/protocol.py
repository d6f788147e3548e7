"""What a store is: rows that hold one turn each, and chain back to the first.

A row keeps what its turn added, not the whole conversation: n turns cost n, not n squared. What was
said before is read along `previous_id`. A turn that continues something never stored (a
`store: false` response of the same socket) carries that as `prefix`.
"""

from typing import Any, Protocol

import msgspec

from gateway.errors import GatewayError

JSON = dict[str, Any]

# A chain this long is a loop of a client's making; real ones are compacted long before.
MAX_CHAIN = 10_000
# Ours have 37; foreign ones may be longer, though not by much.
MAX_ID_CHARS = 256
# When a client may ask again after a store that could not be reached.
RETRY_AFTER_SECONDS = 5


class StoreError(GatewayError):
    """The store cannot do what it should. The client hears no more than that.

    Args:
        reason: one sentence for the operator, with what to do where that is known.
    """

    default_status = 503

    def __init__(self, reason: str) -> None:
        super().__init__(
            "Stored responses cannot be reached at the moment. Try again later.",
            code="store_unavailable",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def can_be_id(text: str) -> bool:
    """Whether a row may have that id: what else a client sends need not be looked for.

    Databases differ in what they make of NUL, half surrogates and the like.
    """
    return text.isascii() and text.isprintable() and 0 < len(text) <= MAX_ID_CHARS


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What one stored response adds to its conversation.

    Args:
        id: the response's id.
        input: the input items of this turn only.
        given: the finished output items that the client has been given: what is continued from.
        previous_id: the stored response that this one continues.
        prefix: items before `input` that no stored row holds.
        starts_over: `given` stands for all that was before it, `input` included (compaction).
    """

    id: str
    input: list[JSON]
    given: list[JSON]
    previous_id: str | None = None
    prefix: list[JSON] = []
    starts_over: bool = False


class Row(Link, frozen=True, kw_only=True):
    """One stored response.

    Args:
        owner: id of the API key that made it; nobody else ever sees it.
        created_at: Unix seconds.
        response: the public Response object as its terminal event had it.
    """

    owner: str
    created_at: int
    response: JSON


class Store(Protocol):
    """Where rows live. A row is kept when `put` returns: the terminal event leaves only then.

    All of them raise `StoreError` when the store cannot be reached. A row that has been damaged
    where it lies is logged, and is not there.
    """

    async def open(self) -> None:
        """Make it ready; to be called once, in the process and the loop that use it.

        Raises:
            StoreError: it cannot be used; `reason` is one sentence that says what to change.
        """

    async def put(self, row: Row) -> None:
        """Keep a row; one of the same id and owner is replaced.

        Raises:
            StoreError: also when the id is another owner's.
        """

    async def get(self, id: str, owner: str) -> Row | None:
        """One row, or None when it is unknown or somebody else's."""

    async def delete(self, id: str, owner: str) -> bool:
        """Forget a row; False when there was none. What continues it cannot be continued then."""

    async def chain(self, id: str, owner: str) -> list[Link]:
        """The row and all that it continues, oldest first; empty when any of them is missing."""

    async def whole(self, id: str, owner: str, since: bytes | None = None) -> bytes | None:
        """Whether `chain` would find the row and all that it continues, without reading them.

        What vanishes from a chain's middle vanishes by `delete` alone, retention takes only ends.
        So each deletion changes a mark, and as long as that stays, looking at the last two is enough.

        Args:
            since: an earlier answer for what this row continues. None: the whole chain is walked.

        Returns:
            The mark; None when something is missing.
        """

    async def check(self) -> None:
        """Write something small, to see whether a write works."""

    async def sealing_key(self) -> bytes:
        """The key for what travels sealed through clients: made once, and kept with the rows."""

    async def close(self) -> None:
        """Let go of what the store holds open."""
