"""A store in PostgreSQL, for several gateways: what one has stored any of them continues.

A write is durable when it is acknowledged. A server that goes away is asked again for a few
seconds: a restart costs the turns that end meanwhile some time, and nothing else.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import asyncpg

from gateway.store import postgres_sql as sql
from gateway.store import schema
from gateway.store.encoding import Damaged, Packed, pack, unpack_link, unpack_row
from gateway.store.protocol import MAX_CHAIN, Link, Row, StoreError, can_be_id
from gateway.store.retention import (
    MARK_SECONDS,
    MAX_SWEEP_ROWS,
    Clock,
    Cutoff,
    Retention,
    Sweeper,
)
from gateway.store.sealing import KEY_BYTES, new_key

log = logging.getLogger(__name__)

T = TypeVar("T")

# Of one gateway process; a connection is busy for the milliseconds of one statement.
MAX_CONNECTIONS = 8
# One attempt. A statement of ours takes milliseconds; a server that needs longer is stuck.
ATTEMPT_SECONDS = 5.0
# A server that is restarted is back in this time. The client waits for its terminal event so long.
RETRY_SECONDS = 10.0
PAUSE_SECONDS = 0.1
CLOSE_SECONDS = 2.0
# Of the mark that each deletion leaves: never the same twice.
MARK_BYTES = 16
# Names our lock among those of other programs in the same database ("RGW1").
LOCK: Final = 0x52475731

# The server went away, is not back yet, or is the wrong one of two: asking again may help.
_LOST: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that breaks while it is handed back
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.UndefinedTableError,
)


class PostgresStore:
    """See `Store`.

    Args:
        url: `postgresql://user:password@host:port/database`, as libpq has it.
        retention: what may stay.
        clock: the wall clock.
        steps: all versions of the schema.
    """

    def __init__(
        self,
        url: str,
        retention: Retention = Retention(),  # noqa: B008  (frozen)
        clock: Clock | None = None,
        steps: schema.Steps = schema.POSTGRES,
    ) -> None:
        self._url = url
        self._steps = steps
        self._clock = clock or Clock()
        self._pool: Any = None
        self.sweeper = Sweeper(self._drop_some, retention, self._clock)

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        try:
            first = await asyncpg.connect(self._url, timeout=ATTEMPT_SECONDS)
            try:
                await self._migrate(first)
                settings = await _durable_settings(first)
            finally:
                await first.close(timeout=CLOSE_SECONDS)
            self._pool = await asyncpg.create_pool(
                self._url,
                min_size=0,
                max_size=MAX_CONNECTIONS,
                timeout=ATTEMPT_SECONDS,
                command_timeout=ATTEMPT_SECONDS,
                server_settings=settings,
            )
        except (*_LOST, asyncpg.PostgresError, ValueError) as error:
            await self.close()
            raise StoreError(self._words(error)) from error
        except StoreError:
            await self.close()
            raise
        self.sweeper.start()

    async def close(self) -> None:
        """Let go of the connections."""
        await self.sweeper.stop()
        if self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), CLOSE_SECONDS)
            except TimeoutError:
                self._pool.terminate()

    async def put(self, row: Row) -> None:
        """Keep a row: committed when this returns."""
        packed = await asyncio.to_thread(pack, row)
        now = self._clock.stamp()
        size = len(packed.items) + len(packed.response)
        values = (row.id, row.owner, row.previous_id, row.created_at, now, *packed, size)
        if not await self._run(lambda connection: connection.fetchval(sql.PUT, *values)):
            raise StoreError(f"The response {row.id} is another key's.")

    async def get(self, id: str, owner: str) -> Row | None:
        """One row, or None when it is unknown or somebody else's."""
        if not can_be_id(id):
            return None
        found = await self._run(lambda connection: connection.fetchrow(sql.GET, id, owner))
        if found is None:
            return None
        previous_id, created_at, *parts = found
        try:
            return unpack_row(id, owner, previous_id, created_at, Packed(*parts))
        except Damaged as error:
            log.error("a stored response is damaged: %s", error)
            return None

    async def delete(self, id: str, owner: str) -> bool:
        """Forget a row; False when there was none."""
        if not can_be_id(id):
            return False
        mark = os.urandom(MARK_BYTES)
        return bool(
            await self._run(lambda connection: connection.fetchval(sql.DELETE, id, owner, mark))
        )

    async def chain(self, id: str, owner: str) -> list[Link]:
        """The row and all that it continues, oldest first; empty when any of them is missing."""
        if not can_be_id(id):
            return []
        rows = await self._run(lambda connection: connection.fetch(sql.CHAIN, id, owner, MAX_CHAIN))
        try:
            links = [unpack_link(id, previous_id, items) for id, previous_id, items, _ in rows]
        except Damaged as error:
            log.error("a stored response is damaged: %s", error)
            return []
        if rows:
            await self._use(id, rows[-1]["used_at"])
        return links

    async def whole(self, id: str, owner: str, since: bytes | None = None) -> bytes | None:
        """Whether `chain` would find something; a mark then."""
        if not can_be_id(id):
            return None
        latest = await self._run(lambda connection: connection.fetchrow(sql.LATEST, id, owner))
        if latest is None or not latest["is_there"]:
            return None
        mark = bytes(latest["mark"])
        if mark != since and not await self._run(
            lambda connection: connection.fetchval(sql.WHOLE, id, owner, MAX_CHAIN)
        ):
            return None
        await self._use(id, latest["used_at"])
        return mark

    async def _use(self, id: str, used_at: int) -> None:
        now = self._clock.stamp()
        if now - used_at > MARK_SECONDS:
            await self._run(lambda connection: connection.execute(sql.MARK, id, now))

    async def check(self) -> None:
        """Write something small."""
        now = str(self._clock.stamp()).encode()
        await self._run(lambda connection: connection.execute(sql.SET, "checked", now))

    async def sealing_key(self) -> bytes:
        """The key in the database, made by the first gateway that asks."""
        name = "sealing_key"
        key = await self._run(lambda connection: connection.fetchval(sql.FACT, name))
        if key is None:
            await self._run(lambda connection: connection.execute(sql.ADD_FACT, name, new_key()))
            key = await self._run(lambda connection: connection.fetchval(sql.FACT, name))
        if key is None or len(key) != KEY_BYTES:
            raise StoreError("The sealing key in table gateway_facts is damaged: restore that row.")
        return bytes(key)

    async def _run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do it on a connection; again for a while when the server goes away.

        Everything that is done here may be done twice: the first attempt may have been committed
        though its answer was lost.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + RETRY_SECONDS
        is_bare = False
        while True:
            try:
                async with self._pool.acquire(timeout=ATTEMPT_SECONDS) as connection:
                    if is_bare:
                        await self._migrate(connection)
                    return await work(connection)
            except _LOST as error:
                if loop.time() > give_up or self._pool.is_closing():
                    raise StoreError(self._words(error)) from error
                # A new database in the place of the old one has no tables.
                is_bare = isinstance(error, asyncpg.UndefinedTableError)
            except asyncpg.PostgresError as error:
                raise StoreError(self._words(error)) from error
            await self._pool.expire_connections()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _migrate(self, connection: Any) -> None:
        """One gateway at a time brings the schema up to date."""
        where = self._place()
        async with connection.transaction():
            await connection.execute(sql.LOCK, LOCK)
            await connection.execute(sql.FACTS)
            found = int(await connection.fetchval(sql.FACT, "schema") or b"0")
            for step in schema.steps_left(found, self._steps, where):
                for statement in step:
                    await connection.execute(statement)
            if found < len(self._steps):
                await connection.execute(sql.SET, "schema", str(len(self._steps)).encode())

    async def _drop_some(self, cutoff: Cutoff) -> int:
        return await self._run(lambda connection: _drop_one_batch(connection, cutoff))

    def _words(self, error: BaseException) -> str:
        said = " ".join(str(error).split()) or type(error).__name__
        return f"The store {self._place()} cannot be used: {said.rstrip('.')}."

    def _place(self) -> str:
        """The URL without what is secret in it."""
        try:
            parts = urlsplit(self._url)
            return f"postgresql://{parts.hostname or ''}{parts.path}"
        except ValueError:
            return "postgresql://"


async def _durable_settings(connection: Any) -> dict[str, str]:
    """A server that is set up to acknowledge before it has written must not do so for us."""
    is_early = await connection.fetchval("SHOW synchronous_commit") == "off"
    return {"synchronous_commit": "on"} if is_early else {}


async def _drop_one_batch(connection: Any, cutoff: Cutoff) -> int:
    """Drop one batch of ends, unless another gateway is at it."""
    async with connection.transaction():
        if not await connection.fetchval(sql.TRY_LOCK, LOCK):
            return 0
        if cutoff.expired_before is not None:
            dropped = await _drop(connection, cutoff.expired_before, None)
            if dropped:
                return dropped
        excess = await connection.fetchval(sql.SIZE) - cutoff.max_bytes
        return await _drop(connection, cutoff.spared_since, excess) if excess > 0 else 0


async def _drop(connection: Any, before: int, excess: int | None) -> int:
    """Drop from the ends towards the first turns; of what is not expired no more than the excess."""
    ends = await connection.fetch(sql.ENDS, before, MAX_SWEEP_ROWS)
    waiting = [id for (id,) in reversed(ends)]
    dropped = 0
    while waiting and dropped < MAX_SWEEP_ROWS and (excess is None or excess > 0):
        found = await connection.fetchrow(sql.DROP, waiting.pop(), before)
        if found is None:
            continue
        dropped += 1
        if excess is not None:
            excess -= found["size"]
        if found["previous_id"] is not None:
            waiting.append(found["previous_id"])
    return dropped
