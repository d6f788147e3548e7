"""What every store promises: the same tests for each of them, by a fixture called `store`."""

import asyncio

import msgspec
import pytest

from gateway.store.protocol import MAX_CHAIN, Store, StoreError
from tests.store.rows import ids, noise, row


async def test_a_row_comes_back_as_it_was_put(store: Store) -> None:
    kept = msgspec.structs.replace(
        row("a", "before", text=noise(100_000)),
        prefix=[{"type": "message", "id": "earlier"}],
        starts_over=True,
        created_at=1_790_000_000,
    )
    await store.put(kept)
    found = await store.get("a", "me")
    assert found == kept
    assert list(found.response) == list(kept.response)


async def test_output_that_the_client_was_not_given_is_kept_apart(store: Store) -> None:
    cut = msgspec.structs.replace(row("a"), given=[])
    await store.put(cut)
    assert await store.get("a", "me") == cut


@pytest.mark.parametrize("value", [2**80, "\0", "\U0001f600 \ud7ff", -0.0, None, [[]]])
async def test_any_json_value_survives(store: Store, value: object) -> None:
    kept = row("a", text=value)
    await store.put(kept)
    assert await store.get("a", "me") == kept


async def test_what_is_stored_does_not_follow_later_changes(store: Store) -> None:
    kept = row("a")
    await store.put(kept)
    kept.response["output"].clear()
    found = await store.get("a", "me")
    assert found is not None
    assert len(found.response["output"]) == 1


async def test_a_row_that_is_put_again_is_replaced(store: Store) -> None:
    await store.put(row("a", text="first"))
    await store.put(row("a", text="second"))
    assert await store.get("a", "me") == row("a", text="second")


async def test_a_chain_is_read_oldest_first(store: Store) -> None:
    for id, previous in (("a", None), ("b", "a"), ("c", "b"), ("fork", "a")):
        await store.put(row(id, previous))
    assert await ids(store, "c") == ["a", "b", "c"]
    assert await ids(store, "fork") == ["a", "fork"]
    assert await ids(store, "unknown") == []
    (link,) = await store.chain("a", "me")
    assert (link.input, link.given) == (row("a").input, row("a").given)


async def test_rows_of_another_owner_are_not_there(store: Store) -> None:
    await store.put(row("a", owner="you"))
    await store.put(row("b", "a", owner="me"))
    assert await store.get("a", "me") is None
    assert await store.delete("a", "me") is False
    assert await ids(store, "b") == []
    assert await ids(store, "a", "you") == ["a"]


async def test_nobody_replaces_the_row_of_another_owner(store: Store) -> None:
    await store.put(row("a", owner="you"))
    with pytest.raises(StoreError):
        await store.put(row("a", owner="me", text="mine"))
    assert await store.get("a", "you") == row("a", owner="you")


async def test_one_refused_row_spoils_no_other_that_comes_with_it(store: Store) -> None:
    await store.put(row("a", owner="you"))
    results = await asyncio.gather(
        *(store.put(row(id)) for id in ("x", "a", "y", "z")), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), StoreError, type(None), type(None)]
    assert [await ids(store, id) for id in ("x", "y", "z")] == [["x"], ["y"], ["z"]]


async def test_a_deleted_row_breaks_what_continues_it(store: Store) -> None:
    await store.put(row("a"))
    await store.put(row("b", "a"))
    assert await store.delete("a", "me") is True
    assert await store.delete("a", "me") is False
    assert await store.get("a", "me") is None
    assert await ids(store, "b") == []
    assert await store.get("b", "me") is not None


async def test_a_chain_is_known_to_be_whole_without_reading_it(store: Store) -> None:
    for id, previous in (("a", None), ("b", "a"), ("c", "b"), ("lost", "never")):
        await store.put(row(id, previous))
    mark = await store.whole("c", "me")
    assert mark is not None
    assert await store.whole("c", "me", mark) == mark
    for id in ("lost", "unknown", "", "\0"):
        assert await store.whole(id, "me") is None
        assert await store.whole(id, "me", mark) is None
    assert await store.whole("c", "you") is None
    assert await store.whole("c", "you", mark) is None


async def test_each_deletion_is_seen_by_who_knew_the_chain(store: Store) -> None:
    for id, previous in (("a", None), ("b", "a"), ("c", "b"), ("other", None), ("more", None)):
        await store.put(row(id, previous))
    before = await store.whole("c", "me")
    assert await store.delete("unknown", "me") is False
    assert await store.delete("other", "you") is False
    assert await store.whole("c", "me") == before
    await store.delete("other", "me")
    between = await store.whole("c", "me", before)
    assert between not in (None, before)
    await store.put(row("d", "c"))
    assert await store.whole("d", "me", between) == between
    await store.delete("a", "me")
    for mark in (None, before, between):
        assert await store.whole("d", "me", mark) is None
    await store.delete("more", "me")
    assert await store.whole("d", "me", between) is None
    assert await store.whole("b", "me", between) is None


async def test_what_follows_a_row_that_has_gone_is_not_whole(store: Store) -> None:
    """A turn that ran so long that its parent has expired."""
    await store.put(row("z"))
    mark = await store.whole("z", "me")
    await store.put(row("child", "expired"))
    assert await store.whole("child", "me", mark) is None


async def test_a_loop_of_ids_is_no_chain(store: Store) -> None:
    await store.put(row("a", "b"))
    await store.put(row("b", "a"))
    await store.put(row("self", "self"))
    assert await ids(store, "a") == []
    assert await ids(store, "self") == []
    assert await store.whole("a", "me") is None
    assert await store.whole("self", "me") is None


async def test_a_long_chain_is_read_whole_and_one_too_long_not_at_all(store: Store) -> None:
    names = [f"r{index}" for index in range(MAX_CHAIN + 1)]
    parents = [None, *names]
    await asyncio.gather(
        *(store.put(row(id, parent)) for id, parent in zip(names, parents, strict=False))
    )
    assert await ids(store, names[MAX_CHAIN - 1]) == names[:-1]
    assert await ids(store, names[MAX_CHAIN]) == []
    assert await store.whole(names[MAX_CHAIN - 1], "me") is not None
    assert await store.whole(names[MAX_CHAIN], "me") is None


@pytest.mark.parametrize("id", ["", "\0", "a\0b", "\udc80", "ü", "a\nb", "x" * 100_000, "' OR 1"])
async def test_what_can_be_no_id_is_unknown(store: Store, id: str) -> None:
    await store.put(row("a"))
    assert await store.get(id, "me") is None
    assert await store.chain(id, "me") == []
    assert await store.delete(id, "me") is False
    assert await ids(store, "a") == ["a"]


async def test_many_at_once(store: Store) -> None:
    names = [f"r{index}" for index in range(300)]
    await asyncio.gather(*(store.put(row(id, "r0" if id != "r0" else None)) for id in names))
    chains = await asyncio.gather(*(ids(store, id) for id in names))
    assert chains == [["r0"], *(["r0", id] for id in names[1:])]


async def test_a_put_that_nobody_waits_for_any_more_harms_no_other(store: Store) -> None:
    puts = [asyncio.create_task(store.put(row(f"r{index}"))) for index in range(20)]
    await asyncio.sleep(0)
    for put in puts[::2]:
        put.cancel()
    await asyncio.gather(*puts, return_exceptions=True)
    assert [await ids(store, f"r{index}") for index in (1, 19)] == [["r1"], ["r19"]]


async def test_the_key_stays_the_same(store: Store) -> None:
    key = await store.sealing_key()
    assert len(key) == 32
    assert await store.sealing_key() == key


async def test_a_check_passes_and_leaves_nothing(store: Store) -> None:
    await store.check()
    await store.check()
    assert await store.chain("checked", "") == []
