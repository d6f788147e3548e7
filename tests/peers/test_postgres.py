"""The store in a real PostgreSQL server: the contract, several gateways, and a server that goes away."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from gateway.store import postgres as module
from gateway.store import schema
from gateway.store.postgres import PostgresStore
from gateway.store.protocol import StoreError
from gateway.store.retention import Clock, Retention
from tests.peers.postgres import PostgresServer
from tests.store.ageing import *  # noqa: F403  (each test of the suite is a test of this file)
from tests.store.ageing import Age
from tests.store.contract import *  # noqa: F403
from tests.store.killing import kill_many
from tests.store.rows import ids, noise, row

NEXT: schema.Steps = (
    *schema.POSTGRES,
    ("ALTER TABLE gateway_responses ADD COLUMN mood text DEFAULT 'good'",),
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def url(server: PostgresServer) -> AsyncIterator[str]:
    """A new database."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("CREATE DATABASE one")
    await connection.close()
    yield server.url.replace("/postgres", "/one")
    connection = await asyncpg.connect(server.url)
    await connection.execute("DROP DATABASE IF EXISTS one WITH (FORCE)")
    await connection.close()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def age(url: str) -> AsyncIterator[Age]:
    opened: list[PostgresStore] = []

    async def open(retention: Retention, clock: Clock) -> PostgresStore:
        store = PostgresStore(url, retention, clock)
        await store.open()
        # Its own first sweep would be one of those that are counted.
        await store.sweeper.stop()
        opened.append(store)
        return store

    yield open
    for store in opened:
        await store.close()


async def sql(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


# -- several gateways


async def test_what_one_has_stored_any_of_them_continues(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))  # and make the tables only once
    names = [f"r{index}" for index in range(40)]
    for index, id in enumerate(names):
        await stores[index % 4].put(row(id, names[index - 1] if index else None))
    for store in stores:
        assert await ids(store, "r39") == names
    keys = await asyncio.gather(*(store.sealing_key() for store in stores))
    assert len(set(keys)) == 1
    assert await stores[0].delete("r20", "me")
    assert await ids(stores[1], "r39") == []
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_step_is_taken_once_and_a_newer_version_refused(
    store: PostgresStore, url: str
) -> None:
    await store.put(row("a"))
    later = [PostgresStore(url, steps=NEXT) for _ in range(3)]
    await asyncio.gather(*(other.open() for other in later))
    assert await ids(later[2], "a") == ["a"]
    await asyncio.gather(*(other.close() for other in later))
    with pytest.raises(StoreError, match="upgrade the gateway"):
        await PostgresStore(url).open()


async def test_a_step_that_fails_leaves_the_version_that_was(
    store: PostgresStore, url: str
) -> None:
    with pytest.raises(StoreError, match="NONSENSE"):
        await PostgresStore(url, steps=(*NEXT, ("NONSENSE",))).open()
    again = PostgresStore(url)
    await again.open()
    await again.put(row("a"))
    assert await ids(store, "a") == ["a"]
    await again.close()


async def test_a_server_that_acknowledges_too_early_does_not_so_for_us(url: str) -> None:
    await sql(url, "ALTER DATABASE one SET synchronous_commit = off")
    store = PostgresStore(url)
    await store.open()
    assert await store._run(lambda c: c.fetchval("SHOW synchronous_commit")) == "on"
    await store.close()


@pytest.mark.parametrize("column", ["items", "response"])
async def test_a_damaged_row_is_not_there(
    store: PostgresStore, url: str, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    await store.put(row("a"))
    await store.put(row("b", "a"))
    for value in (f"substr({column}, 2)", "''::bytea", f"set_byte({column}, 9, 255)"):
        await store.put(row("a"))
        await sql(url, f"UPDATE gateway_responses SET {column} = {value} WHERE id = 'a'")
        assert await store.get("a", "me") is None
        if column == "items":
            assert await ids(store, "b") == []
    assert "damaged" in caplog.text


# -- a server that cannot be used


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda url: url.replace("/one", "/none"), "none"),
        (lambda url: url.replace("127.0.0.1", "127.0.0.1:1/x?"), "cannot be used"),
        (lambda url: url.replace("@127.0.0.1", "@127.0.0.2"), "cannot be used"),
        (lambda url: url + "?sslmode=nonsense", "sslmode"),
    ],
)
async def test_a_server_that_is_not_there(url: str, change: object, words: str) -> None:
    assert callable(change)
    with pytest.raises(StoreError, match=words) as caught:
        await PostgresStore(change(url)).open()
    assert "secret" not in caught.value.reason
    assert "\n" not in caught.value.reason


async def test_a_server_that_went_away_and_did_not_come_back(
    server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.3)
    await store.put(row("a"))
    server.stop(signal.SIGINT)
    try:
        for attempt in (store.put(row("b", "a")), store.get("a", "me"), store.check()):
            with pytest.raises(StoreError):
                await attempt
    finally:
        server.start()
    await store.put(row("b", "a"))
    assert await ids(store, "b") == ["a", "b"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
async def test_a_server_restarted_under_load_loses_nothing(
    server: PostgresServer, store: PostgresStore, how: signal.Signals
) -> None:
    acknowledged: list[str] = []
    is_over = asyncio.Event()

    async def talk(number: int) -> None:
        previous, count = None, 0
        while not is_over.is_set():
            id = f"t{number}.{count}"
            await store.put(row(id, previous, text=noise(5000)))
            acknowledged.append(id)
            previous, count = id, count + 1

    async def reaches(count: int) -> None:
        while len(acknowledged) < count:
            await asyncio.wait(talks, timeout=0.01, return_when=asyncio.FIRST_EXCEPTION)

    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        talks = [group.create_task(talk(number)) for number in range(6)]
        await reaches(60)
        try:
            await asyncio.to_thread(server.stop, how)
        finally:
            await asyncio.to_thread(server.start)
        await reaches(len(acknowledged) + 60)
        is_over.set()
    for id in acknowledged:
        talk_name, count_text = id.split(".")
        assert await ids(store, id) == [f"{talk_name}.{n}" for n in range(int(count_text) + 1)]


async def test_a_session_that_is_ended_is_opened_again(store: PostgresStore, url: str) -> None:
    await store.put(row("a"))
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = 'one' AND pid <> pg_backend_pid()"
    )
    await connection.close()
    await store.put(row("b", "a"))
    assert await ids(store, "b") == ["a", "b"]


async def test_a_new_database_in_the_place_of_the_old(store: PostgresStore, url: str) -> None:
    await store.put(row("a"))
    await sql(url, "DROP TABLE gateway_responses, gateway_facts")
    await store.put(row("b"))
    assert await store.get("a", "me") is None
    assert await ids(store, "b") == ["b"]


async def test_a_server_that_takes_no_writes(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.3)
    await store.put(row("a"))
    await sql(url, "ALTER DATABASE one SET default_transaction_read_only = on")
    await store._pool.expire_connections()
    with pytest.raises(StoreError, match="read-only"):
        await store.put(row("b", "a"))
    assert await ids(store, "a") == ["a"]
    await sql(
        url,
        "SET default_transaction_read_only = off",
        "ALTER DATABASE one RESET default_transaction_read_only",
    )
    await store.put(row("b", "a"))
    assert await ids(store, "b") == ["a", "b"]


async def test_what_was_acknowledged_survives_kill_9_of_a_gateway(
    store: PostgresStore, url: str
) -> None:
    await kill_many(url, store, times=50, seed=2)
