"""Rows for tests of stores."""

import random
from typing import Any

from gateway.store.protocol import Row, Store

_random = random.Random(4)


def noise(chars: int) -> str:
    """A text that no compression makes smaller than half."""
    return _random.randbytes(chars // 2).hex()


def row(id: str, previous_id: str | None = None, owner: str = "me", text: Any = "hi") -> Row:
    """A row as a turn leaves it: its output is what the client has been given."""
    output: list[dict[str, Any]] = [{"type": "message", "text": text}]
    return Row(
        id=id,
        owner=owner,
        created_at=1,
        response={"id": id, "output": output, "tools": []},
        input=[{"type": "message", "id": f"in_{id}"}],
        given=output,
        previous_id=previous_id,
    )


async def ids(store: Store, id: str, owner: str = "me") -> list[str]:
    """The ids of a chain."""
    return [link.id for link in await store.chain(id, owner)]


async def there(store: Store, *wanted: str) -> list[str]:
    """Which of these the store has."""
    return [id for id in wanted if await store.get(id, "me") is not None]
