"""The memory store stays within its bounds; what it shares with the others is in contract.py."""

from gateway.store.memory import MemoryStore
from tests.store.rows import ids, noise, row, there


async def test_the_number_of_rows_is_bounded_and_the_unused_go_first() -> None:
    store = MemoryStore(max_rows=3)
    for id in ("old", "a", "b"):
        await store.put(row(id))
    assert await ids(store, "old") == ["old"]
    await store.put(row("c"))
    assert await there(store, "old", "a", "b", "c") == ["old", "b", "c"]


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
    await store.put(row("a", text=noise(1500)))
    await store.put(row("b", text=noise(1500)))
    assert await there(store, "a", "b") == ["b"]
    await store.put(row("b", text="short"))
    await store.put(row("c", text="short"))
    assert await there(store, "b", "c") == ["b", "c"]


async def test_a_row_beyond_the_bound_is_not_kept() -> None:
    store = MemoryStore(max_bytes=100)
    await store.put(row("a", text=noise(500)))
    assert await store.get("a", "me") is None


async def test_what_nobody_has_used_for_so_long_goes() -> None:
    now = 0.0
    store = MemoryStore(retention_seconds=100, now=lambda: now)
    await store.put(row("a"))
    await store.put(row("live"))
    now = 90.0
    await store.put(row("next", "live"))
    now = 110.0
    await store.put(row("b"))
    assert await there(store, "a", "live", "next", "b") == ["live", "next", "b"]


async def test_to_be_known_is_to_be_used() -> None:
    now = 0.0
    store = MemoryStore(retention_seconds=100, now=lambda: now)
    await store.put(row("a"))
    await store.put(row("b"))
    now = 90.0
    mark = await store.whole("a", "me")
    now = 110.0
    await store.put(row("c"))
    assert await store.whole("a", "me", mark) == mark
    assert await store.whole("b", "me", mark) is None


async def test_each_has_a_key_of_its_own() -> None:
    assert await MemoryStore().sealing_key() != await MemoryStore().sealing_key()
