"""The memory store: rows chain, belong to one owner, and stay within their bounds."""

from typing import Any

from gateway.store.memory import MemoryStore
from gateway.store.protocol import Row, Store


def row(id: str, previous_id: str | None = None, owner: str = "me", text: str = "hi") -> Row:
    output: list[dict[str, Any]] = [{"type": "message", "text": text}]
    return Row(
        id=id,
        owner=owner,
        created_at=1,
        response={"id": id, "output": output},
        input=[{"type": "message", "id": f"in_{id}"}],
        given=output,
        previous_id=previous_id,
    )


async def ids(store: Store, id: str, owner: str = "me") -> list[str]:
    return [row.id for row in await store.chain(id, owner)]


async def test_a_row_comes_back_as_it_was_put() -> None:
    store = MemoryStore()
    kept = row("a")
    await store.put(kept)
    assert await store.get("a", "me") == kept


async def test_integers_beyond_64_bit_survive() -> None:
    store = MemoryStore()
    big = row("a", text=2**80)  # type: ignore[arg-type]  # any JSON value may stand there
    await store.put(big)
    assert await store.get("a", "me") == big


async def test_what_is_stored_does_not_follow_later_changes() -> None:
    store = MemoryStore()
    kept = row("a")
    await store.put(kept)
    kept.response["output"].clear()
    found = await store.get("a", "me")
    assert found is not None
    assert len(found.response["output"]) == 1


async def test_a_chain_is_read_oldest_first() -> None:
    store = MemoryStore()
    for id, previous in (("a", None), ("b", "a"), ("c", "b"), ("fork", "a")):
        await store.put(row(id, previous))
    assert await ids(store, "c") == ["a", "b", "c"]
    assert await ids(store, "fork") == ["a", "fork"]
    assert await ids(store, "unknown") == []


async def test_rows_of_another_owner_are_not_there() -> None:
    store = MemoryStore()
    await store.put(row("a", owner="you"))
    await store.put(row("b", "a", owner="me"))
    assert await store.get("a", "me") is None
    assert await store.delete("a", "me") is False
    assert await ids(store, "b") == []
    assert await ids(store, "a", "you") == ["a"]


async def test_a_deleted_row_breaks_what_continues_it() -> None:
    store = MemoryStore()
    await store.put(row("a"))
    await store.put(row("b", "a"))
    assert await store.delete("a", "me") is True
    assert await store.delete("a", "me") is False
    assert await store.get("a", "me") is None
    assert await ids(store, "b") == []


async def test_a_loop_of_ids_is_no_chain() -> None:
    store = MemoryStore()
    await store.put(row("a", "b"))
    await store.put(row("b", "a"))
    assert await ids(store, "a") == []


async def test_the_number_of_rows_is_bounded_and_the_unused_go_first() -> None:
    store = MemoryStore(max_rows=3)
    for id in ("old", "a", "b"):
        await store.put(row(id))
    assert await ids(store, "old") == ["old"]
    await store.put(row("c"))
    assert await store.get("a", "me") is None
    assert await ids(store, "old") == ["old"]


async def test_what_a_live_conversation_stands_on_stays() -> None:
    store = MemoryStore(max_rows=3)
    await store.put(row("a"))
    await store.put(row("other"))
    await store.put(row("b", "a"))
    await store.put(row("c", "b"))
    assert await ids(store, "c") == ["a", "b", "c"]
    assert await store.get("other", "me") is None


async def test_the_bytes_are_bounded() -> None:
    store = MemoryStore(max_bytes=2000)
    await store.put(row("a", text="x" * 500))
    await store.put(row("b", text="x" * 500))
    assert await store.get("a", "me") is None
    assert await store.get("b", "me") is not None
    await store.put(row("b", text="short"))
    await store.put(row("c", text="short"))
    assert await store.get("b", "me") is not None


async def test_a_row_beyond_the_bound_is_not_kept() -> None:
    store = MemoryStore(max_bytes=100)
    await store.put(row("a", text="x" * 500))
    assert await store.get("a", "me") is None
    await store.close()
