"""What is kept ready is what the store would give: after every step, for every owner, in every process."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gateway.errors import RequestError
from gateway.server.parent import NEVER, Parent, parent_of, size_of
from gateway.server.parents import Parents
from gateway.store.memory import MemoryStore
from gateway.store.protocol import Row, Store
from gateway.turn.history import History

OWNERS = ("me", "you")


def message(number: int) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": f"text {number}"}


async def say(store: Store, parents: Parents, parent: Parent, owner: str, number: int) -> Parent:
    """A turn as the relay ends it: its row is put, and its parent is kept."""
    id = f"resp_{number}"
    given = [{**message(number), "role": "assistant"}]
    history = parent.history.extended([message(number)], given)
    row = Row(
        id=id,
        owner=owner,
        created_at=number,
        response={"id": id, "output": given},
        input=[message(number)],
        given=given,
        previous_id=parent.id,
    )
    await store.put(row)
    following = Parent(id, history, True, size_of(history.items), parent.mark)
    parents.keep(following, owner)
    return following


async def found(parents: Parents, id: str, owner: str) -> tuple[History, bool, int] | str:
    try:
        parent = await parents.find(id, owner)
    except RequestError as error:
        return str(error)
    return parent.history, parent.is_stored, parent.size


async def cold(store: Store, id: str, owner: str) -> tuple[History, bool, int] | str:
    try:
        parent = parent_of(id, await store.chain(id, owner))
    except RequestError as error:
        return str(error)
    return parent.history, parent.is_stored, parent.size


# What happens: a turn (from nothing or from some response), a deletion, a look. In one of two processes.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("say", "say", "say", "delete", "look")),
        st.integers(0, 30),
        st.sampled_from((0, 0, 1)),
        st.sampled_from((0, 0, 0, 1)),
    ),
    max_size=40,
)


async def play(steps: list[tuple[str, int, int, int]], max_rows: int, max_parents: int) -> None:
    store = MemoryStore(max_rows=max_rows)
    processes = [Parents(store, max_parents) for _ in range(2)]
    owners: dict[str, str] = {}
    for number, (what, which, process, stranger) in enumerate(steps):
        parents = processes[process]
        id = list(owners)[which % len(owners)] if owners else "resp_none"
        owner = OWNERS[(owners.get(id) == "you") ^ stranger]
        if what == "delete":
            await store.delete(id, owner)
            continue
        expected = await cold(store, id, owner)
        if what == "look" or which % 5:
            assert await found(parents, id, owner) == expected
        if what == "say" and not isinstance(expected, str):
            parent = await parents.find(id, owner)
            owners[(await say(store, parents, parent, owner, number)).id or ""] = owner
        elif what == "say":
            owners[(await say(store, parents, Parent(), owner, number)).id or ""] = owner
        assert parents.bytes == sum(it.size for it in parents._ready.values())
        assert len(parents) <= max_parents


@given(STEPS, st.sampled_from((3, 8, 1000)), st.sampled_from((0, 1, 3, 100)))
def test_kept_or_not_it_is_the_same(
    steps: list[tuple[str, int, int, int]], max_rows: int, max_parents: int
) -> None:
    asyncio.run(play(steps, max_rows, max_parents))


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    return MemoryStore()


async def grown(store: Store, parents: Parents, turns: int) -> Parent:
    parent = Parent()
    for number in range(turns):
        if parent.id is not None:
            parent = await parents.find(parent.id, "me")
        parent = await say(store, parents, parent, "me", number)
    return parent


async def test_a_chain_that_goes_on_is_not_read(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> None:
        raise AssertionError("the chain was read")

    monkeypatch.setattr(store, "chain", never)
    parents = Parents(store)
    last = await grown(store, parents, 30)
    assert len(last.history.items) == 60
    assert len(parents) == 1


async def test_a_fork_is_read_by_the_second_that_comes(store: MemoryStore) -> None:
    parents = Parents(store)
    last = await grown(store, parents, 3)
    both = await asyncio.gather(*(parents.find("resp_2", "me") for _ in range(2)))
    assert [it.history for it in both] == [last.history] * 2
    assert [it.history is last.history for it in both] == [True, False]


async def test_what_two_wait_for_is_given_to_one(store: MemoryStore) -> None:
    """Both have found it before either has heard from the store."""
    parents = Parents(store)
    last = await grown(store, parents, 2)
    ask = store.whole

    async def slow(*of: Any) -> bytes | None:
        await asyncio.sleep(0)
        return await ask(*of)

    store.whole = slow  # type: ignore[method-assign]
    both = await asyncio.gather(*(parents.find("resp_1", "me") for _ in range(2)))
    assert sorted(it.history is last.history for it in both) == [False, True]


async def test_a_deletion_while_the_turn_runs_is_seen_by_the_next(store: MemoryStore) -> None:
    parents = Parents(store)
    await grown(store, parents, 3)
    parent = await parents.find("resp_2", "me")
    await store.delete("resp_0", "me")
    await say(store, parents, parent, "me", 3)
    with pytest.raises(RequestError, match="resp_3"):
        await parents.find("resp_3", "me")
    assert (len(parents), parents.bytes) == (0, 0)


async def test_a_parent_that_expired_while_the_turn_ran_is_seen_by_the_next(
    store: MemoryStore,
) -> None:
    parents = Parents(store)
    parent = await grown(store, parents, 2)
    await say(store, parents, structs.replace(parent, id=NEVER), "me", 2)
    with pytest.raises(RequestError, match="resp_2"):
        await parents.find("resp_2", "me")


async def test_the_bounds_hold(store: MemoryStore) -> None:
    size = (await grown(store, Parents(store), 1)).size
    parents = Parents(store, max_parents=3, max_bytes=size * 5 // 2)
    for number in range(10, 20):
        await say(store, parents, Parent(), "me", number)
    assert list(parents._ready) == [("me", "resp_18"), ("me", "resp_19")]
    parents.keep(Parent("resp_big", History(), True, size * 3), "me")
    assert len(parents) == 2
    parents.forget("resp_18", "you")
    parents.forget("resp_18", "me")
    assert list(parents._ready) == [("me", "resp_19")]
