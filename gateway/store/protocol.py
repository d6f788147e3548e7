"""What a store is: rows that hold one turn each, and chain back to the first.

A row keeps what its turn added, not the whole conversation: n turns cost n, not n squared. What was
said before is read along `previous_id`. A turn that continues something never stored (a
`store: false` response of the same socket) carries that as `prefix`.
"""

from typing import Any, Protocol

import msgspec

JSON = dict[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One stored response.

    Args:
        id: the response's id.
        owner: id of the API key that made it; nobody else ever sees it.
        created_at: Unix seconds.
        response: the public Response object as its terminal event had it.
        input: the input items of this turn only.
        given: the finished output items that the client has been given: what is continued from.
        previous_id: the stored response that this one continues.
        prefix: items before `input` that no stored row holds.
        starts_over: `given` stands for all that was before it, `input` included (compaction).
    """

    id: str
    owner: str
    created_at: int
    response: JSON
    input: list[JSON]
    given: list[JSON]
    previous_id: str | None = None
    prefix: list[JSON] = []
    starts_over: bool = False


class Store(Protocol):
    """Where rows live. A row is kept when `put` returns: the terminal event leaves only then."""

    async def put(self, row: Row) -> None:
        """Keep a row."""

    async def get(self, id: str, owner: str) -> Row | None:
        """One row, or None when it is unknown or somebody else's."""

    async def delete(self, id: str, owner: str) -> bool:
        """Forget a row; False when there was none. What continues it cannot be continued then."""

    async def chain(self, id: str, owner: str) -> list[Row]:
        """The row and all that it continues, oldest first; empty when any of them is missing."""

    async def close(self) -> None:
        """Let go of what the store holds open."""
