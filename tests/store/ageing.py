"""What every store that lasts promises of retention and size; by a fixture called `age`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.store.retention import (
    CLOCK_HOLD_SECONDS,
    IN_USE_SECONDS,
    MARK_SECONDS,
    Clock,
    Retention,
)
from tests.store.rows import ids, noise, row, there

DAY = 24 * 60 * 60


class Time:
    """A machine's clocks, set by hand."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.uptime = 1000.0
        self.clock = Clock(now=lambda: self.wall, uptime=lambda: self.uptime)

    def passes(self, seconds: float) -> None:
        """Both go on."""
        self.wall += seconds
        self.uptime += seconds


# Opens the store under test with this retention and clock.
Age = Callable[[Retention, Clock], Awaitable[Any]]


async def test_what_nobody_used_for_so_long_goes(age: Age) -> None:
    time = Time()
    store = await age(Retention(seconds=30 * DAY), time.clock)
    await store.put(row("old"))
    time.passes(20 * DAY)
    await store.put(row("new"))
    assert await store.sweeper.sweep() == 0
    time.passes(11 * DAY)
    assert await store.sweeper.sweep() == 1
    assert await there(store, "old", "new") == ["new"]


async def test_a_conversation_lives_for_as_long_as_its_last_turn(age: Age) -> None:
    time = Time()
    store = await age(Retention(seconds=30 * DAY), time.clock)
    await store.put(row("a"))
    time.passes(20 * DAY)
    await store.put(row("b", "a"))
    await store.put(row("fork", "a"))
    time.passes(20 * DAY)
    await store.put(row("c", "b"))
    assert await store.sweeper.sweep() == 0
    time.passes(15 * DAY)
    assert await store.sweeper.sweep() == 1
    assert await ids(store, "c") == ["a", "b", "c"]
    time.passes(31 * DAY)
    assert await store.sweeper.sweep() == 3
    assert await there(store, "a", "b", "c") == []


async def test_to_be_known_is_to_be_used(age: Age) -> None:
    """A conversation that a gateway has ready is continued without being read."""
    time = Time()
    store = await age(Retention(seconds=30 * DAY), time.clock)
    await store.put(row("a"))
    await store.put(row("b"))
    mark = await store.whole("a", "me")
    time.passes(29 * DAY)
    assert await store.whole("a", "me", mark) == mark
    time.passes(2 * DAY)
    await store.check()  # behind the mark that asking has left
    assert await store.sweeper.sweep() == 1
    assert await store.whole("a", "me", mark) == mark
    assert await store.whole("b", "me", mark) is None


async def test_to_be_continued_is_to_be_used(age: Age) -> None:
    time = Time()
    store = await age(Retention(seconds=30 * DAY), time.clock)
    await store.put(row("a"))
    await store.put(row("b"))
    time.passes(29 * DAY)
    assert await ids(store, "a") == ["a"]
    time.passes(2 * DAY)
    await store.check()  # behind the mark that reading has left
    assert await store.sweeper.sweep() == 1
    assert await there(store, "a", "b") == ["a"]


async def test_a_long_conversation_goes_whole_in_small_batches(age: Age) -> None:
    time = Time()
    store = await age(Retention(seconds=30 * DAY), time.clock)
    names = [f"r{index}" for index in range(250)]
    await asyncio.gather(
        *(store.put(row(id, parent)) for id, parent in zip(names, [None, *names], strict=False))
    )
    time.passes(31 * DAY)
    cutoff = time.clock.cutoff(Retention(seconds=30 * DAY))
    batches = [await store._drop_some(cutoff) for _ in range(4)]
    assert batches == [100, 100, 50, 0]


async def test_too_many_bytes_drop_the_conversation_that_was_not_used_for_longest(age: Age) -> None:
    time = Time()
    store = await age(Retention(max_bytes=300_000), time.clock)
    for talk in ("x", "y", "z"):
        await store.put(row(f"{talk}1", text=noise(150_000)))
        await store.put(row(f"{talk}2", f"{talk}1", text=noise(150_000)))
        time.passes(60)
    assert await ids(store, "x2") == ["x1", "x2"]
    time.passes(IN_USE_SECONDS)
    await store.put(row("z3", "z2"))
    dropped = await store.sweeper.sweep()
    assert dropped >= 2
    left = await there(store, "x1", "x2", "y1", "y2", "z1", "z2", "z3")
    assert await ids(store, "z3") == ["z1", "z2", "z3"]
    assert left[-3:] == ["z1", "z2", "z3"]
    assert "x2" not in left
    assert await store.sweeper.sweep() == 0


async def test_the_size_bound_spares_what_may_be_in_use(age: Age) -> None:
    time = Time()
    store = await age(Retention(max_bytes=100_000), time.clock)
    await store.put(row("a", text=noise(300_000)))
    time.passes(IN_USE_SECONDS - MARK_SECONDS)
    assert await store.sweeper.sweep() == 0
    assert await ids(store, "a") == ["a"]
    await store.check()
    time.passes(IN_USE_SECONDS - MARK_SECONDS)
    assert await store.sweeper.sweep() == 0
    time.passes(IN_USE_SECONDS)
    assert await store.sweeper.sweep() == 1


async def test_a_clock_set_forward_empties_nothing(age: Age) -> None:
    time = Time()
    store = await age(Retention(seconds=30 * DAY), time.clock)
    await store.put(row("a"))
    time.wall += 365 * DAY
    assert await store.sweeper.sweep() == 0
    time.passes(60)
    time.wall -= 365 * DAY
    assert await store.sweeper.sweep() == 0
    time.passes(CLOCK_HOLD_SECONDS)
    assert await store.sweeper.sweep() == 0
    assert await ids(store, "a") == ["a"]
    time.passes(31 * DAY)
    assert await store.sweeper.sweep() == 1


async def test_a_clock_set_back_neither_loses_nor_disorders(age: Age) -> None:
    time = Time()
    store = await age(Retention(seconds=30 * DAY), time.clock)
    await store.put(row("a"))
    time.wall -= 365 * DAY
    await store.put(row("b", "a"))
    time.wall += 365 * DAY
    assert await store.sweeper.sweep() == 0
    assert await ids(store, "b") == ["a", "b"]
