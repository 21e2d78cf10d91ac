"""PostgreSQL behind the storage interface: pooled connections, and a notifier for the other servers."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, cast

import asyncpg

from terracrew import backoff
from terracrew.errors import Unavailable
from terracrew.server.db.availability import RETRY_AFTER_SECONDS, Availability, away
from terracrew.server.db.group import Grouped, call_all
from terracrew.server.db.health import Health
from terracrew.server.db.migrate import migrate
from terracrew.server.db.postgres.clock import Clock
from terracrew.server.db.postgres.notify import Notifier
from terracrew.server.db.postgres.transaction import Connection, PostgresTx, is_away, translated
from terracrew.server.db.seam import MAX_GROUP_ITEMS, Item, Result, T, Tx, Work
from terracrew.server.db.topics import Topic
from terracrew.server.db.wakeups import Listener, WakeupBus

WRITER_CONNECTIONS, READER_CONNECTIONS, BACKGROUND_CONNECTIONS = 10, 5, 4
UNIT_TIMEOUT_SECONDS = 30.0  # for a whole unit of work
CONNECTION_WAIT_SECONDS = 10.0  # before the unit of work starts
MAX_DEADLOCK_RETRIES = 3
_MIGRATION_LOCK_KEY = 7_236_002_411  # an arbitrary advisory lock that no other program on this database uses
_SETTINGS = {
    "application_name": "terracrew",
    "jit": "off",  # compiling takes longer than any of our statements
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "10s",  # a server that was suspended must not keep its row locks
}
# Planning the statement that the scheduler reads a job with takes 9 ms, and running it takes less than one. Lists are planned
# for their values, because a plan for any value of an optional filter reads whole tables. A plan that is made once must not
# read whole tables either, even if they are still small when it is made.
_PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
# A unit of work that writes looks up a few rows by their keys. Its statements are planned without statistics of its values, and
# the costly conditions of a claim made it look cheaper to read all jobs for a join than to look up one.
_LOOKS_UP = {"enable_hashjoin": "off", "enable_mergejoin": "off"}
_READ_ONLY = {"default_transaction_read_only": "on"}


class _AsyncpgPool(Protocol):
    async def acquire(self) -> Connection: ...
    async def release(self, connection: Connection, *, timeout: float) -> None: ...
    async def expire_connections(self) -> None: ...
    async def close(self) -> None: ...


class _Pool:
    """A pool of asyncpg that serves tasks in the order of arrival. asyncpg itself prefers a task that has just released a connection."""

    def __init__(self, pool: _AsyncpgPool, size: int) -> None:
        self._pool = pool
        self._turns = asyncio.Semaphore(size)
        self._used: set[Connection] = set()
        self._is_stale = False
        self.waiting = 0
        """The number of tasks that wait for a connection."""

    @asynccontextmanager
    async def connection(self, availability: Availability) -> AsyncGenerator[Connection]:
        with translated():
            self.waiting += 1
            try:
                async with asyncio.timeout(CONNECTION_WAIT_SECONDS):
                    await self._turns.acquire()
            except TimeoutError:
                raise Unavailable(
                    "every connection to the database is in use", retry_after=RETRY_AFTER_SECONDS
                ) from None
            finally:
                self.waiting -= 1
            try:
                availability.check()
                if self._is_stale:
                    self._is_stale = False
                    await self._pool.expire_connections()
                async with asyncio.timeout(UNIT_TIMEOUT_SECONDS):
                    connection = await self._pool.acquire()
                    self._used.add(connection)
                    try:
                        yield connection
                    finally:
                        self._used.discard(connection)
                        await self._pool.release(connection, timeout=5)
            finally:
                self._turns.release()

    def abandon(self) -> None:
        """End every statement that waits for an answer, and stop using the present connections: the database is away."""
        self._is_stale = True
        for connection in tuple(self._used):
            with suppress(asyncpg.InterfaceError):  # it has ended already, and asyncpg has taken it out of its pool
                connection.terminate()

    async def close(self) -> None:
        """Wait a limited time for the running units of work."""
        with suppress(TimeoutError):
            async with asyncio.timeout(UNIT_TIMEOUT_SECONDS / 3):
                await self._pool.close()


class PostgresDatabase:
    """Use `open_database()`."""

    kind = "postgres"

    def __init__(
        self,
        url: str,
        writers: _Pool,
        readers: _Pool,
        background: _Pool,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._writers = writers
        self._readers = readers
        self._background = background
        self._clock = Clock(clock)
        self._bus = WakeupBus()
        self._availability = Availability(self._lost)
        self.health = Health(lambda: self._writers.waiting, lambda: not self._availability.is_away)
        self._notifier = Notifier(lambda: _connect(url), self._bus, self._availability)

    async def start(self) -> None:
        await self._notifier.start()

    async def read(self, work: Work[T]) -> T:
        """Run a unit of work on a connection that can only read. Each statement sees what is committed when the statement starts."""
        return await self._read(self._readers, work)

    async def read_in_background(self, work: Work[T]) -> T:
        return await self._read(self._background, work)

    async def write(self, work: Work[T]) -> T:
        """Run a unit of work and commit it. After a deadlock it is run again, so it must have no effects outside its transaction."""
        for retry in range(MAX_DEADLOCK_RETRIES):
            try:
                return await self._write_once(work)
            except Unavailable as error:
                if not error.details.get("rolled_back"):
                    self.health.refused(self._kind_of(error), error.message)
                    raise
                self.health.errors.labels("deadlock").inc()
                await asyncio.sleep(backoff.below(0.02 * 2**retry))
        return await self._write_once(work)

    def grouped(
        self,
        work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: int = MAX_GROUP_ITEMS,
    ) -> Grouped[Item, Result]:
        return Grouped(self.write, work, max_items)

    def grouped_reads(
        self, work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]]
    ) -> Grouped[Item, Result]:
        return Grouped(self.read, work)

    def listen(self, *topics: Topic) -> AbstractContextManager[Listener]:
        return self._bus.listen(*topics)

    def wake_here(self, topic: Topic, key: str) -> None:
        self._bus.publish([(topic, key)])

    def wake_others(self, topic: Topic, key: str) -> None:
        self._notifier.send([(topic, key)])

    async def ready(self, timeout: float | None = None) -> bool:
        return await self._availability.wait(timeout)

    async def close(self) -> None:
        self._bus.close()
        await self._notifier.stop()
        self._availability.close()
        await asyncio.gather(*(pool.close() for pool in self._pools))

    @property
    def _pools(self) -> tuple[_Pool, ...]:
        return self._writers, self._readers, self._background

    @asynccontextmanager
    async def _connected(self, pool: _Pool) -> AsyncGenerator[Connection]:
        self._availability.check()
        try:
            async with pool.connection(self._availability) as connection:
                yield connection
        except Unavailable as error:
            if not is_away(error):
                raise
            self._notifier.doubt()
            raise away() from error

    async def _read(self, pool: _Pool, work: Work[T]) -> T:
        async with self._connected(pool) as connection:
            return await work(PostgresTx(connection, await self._clock.read(connection, is_writer=False)))

    def _kind_of(self, error: Unavailable) -> str:
        if self._availability.is_away or is_away(error.__cause__ or error):
            return "away"
        return "storage" if error.__cause__ else "busy"

    def _lost(self) -> None:
        for pool in self._pools:
            pool.abandon()

    async def _write_once(self, work: Work[T]) -> T:
        tx: PostgresTx | None = None
        try:
            async with self._connected(self._writers) as connection:
                started = time.monotonic()
                tx = PostgresTx(connection, await self._clock.read(connection))
                result = await _transact(connection, tx, work)
                self.health.committed(started)
        except (
            BaseException
        ):  # it may have been committed before the connection failed, even as late as in its return to the pool
            call_all(tx.failure_actions if tx is not None else ())
            raise
        call_all(tx.actions)
        if tx.wakes:
            wakes = dict.fromkeys(tx.wakes)
            self._bus.publish(wakes)
            self._notifier.send(wakes)
        return result


async def open_postgres(url: str, clock: Callable[[], float] | None = None) -> PostgresDatabase:
    """Bring the tables up to date, then connect for good. An error says whether the database could not be reached."""
    try:
        with translated():
            await _migrate(url)
            writers = await _pool(url, WRITER_CONNECTIONS, **_PLANNED_ONCE, **_LOOKS_UP)
            readers = await _pool(url, READER_CONNECTIONS, **_PLANNED_ONCE, **_READ_ONLY)
            background = await _pool(url, BACKGROUND_CONNECTIONS, **_READ_ONLY)
        database = PostgresDatabase(url, writers, readers, background, clock)
        await database.start()
    except Unavailable as error:
        if is_away(error):
            error.details["is_away"] = True
        raise
    return database


async def _migrate(url: str) -> None:
    connection = await _connect(url, statement_timeout="0", idle_in_transaction_session_timeout="0")

    async def once(work: Work[T]) -> T:
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK_KEY})")
            has_clock = await connection.fetchval("SELECT to_regclass('clock') IS NOT NULL")
            tx = PostgresTx(connection, await Clock(has_tables=has_clock).read(connection))
            return await _transact(connection, tx, work)

    async def write(work: Work[T]) -> T:
        """Run a unit of work while no other server that starts runs one. Run it again after a deadlock with a server that uses the
        tables meanwhile."""
        for retry in range(MAX_DEADLOCK_RETRIES * 2):
            try:
                return await once(work)
            except Unavailable as error:
                if not error.details.get("rolled_back"):
                    raise
                await asyncio.sleep(backoff.below(0.1 * 2**retry))
        return await once(work)

    try:
        await migrate(write, has_other_servers=True)
        await write(_leave_room)
    finally:
        await connection.close()


async def _leave_room(tx: Tx) -> None:
    """Let each page of `instances` have room for two versions of its rows, unless the owner of the table has chosen otherwise.

    Instances that connect together send their heartbeats together, so that one transaction updates all rows of a page. Without
    room for their new versions, each of them moves to another page and to a new entry of every index.
    """
    is_chosen = "EXISTS (SELECT 1 FROM unnest(reloptions) AS option WHERE option LIKE 'fillfactor=%')"
    is_own = "oid = 'instances'::regclass AND pg_has_role(relowner, 'USAGE')"
    if await tx.one(f"SELECT 1 AS yes FROM pg_class WHERE {is_own} AND NOT {is_chosen}"):
        await tx.run("ALTER TABLE instances SET (fillfactor = 45)")


async def _transact(connection: Connection, tx: PostgresTx, work: Work[T]) -> T:
    async with connection.transaction():
        result = await work(tx)
        if tx.failure is not None:  # swallowed by the unit, but PostgreSQL would answer the commit with a rollback
            raise tx.failure
    return result


async def _connect(url: str, **settings: str) -> Connection:
    connect = cast("Any", asyncpg.connect)
    return await connect(url, timeout=5, statement_cache_size=512, server_settings=_SETTINGS | settings)


async def _pool(url: str, size: int, **settings: str) -> _Pool:
    async def keep(_: object) -> None:
        """Do not reset the connection: nothing outlives a transaction, and a reset would cost a round trip each time."""

    create = cast("Any", asyncpg.create_pool)
    pool: _AsyncpgPool = await create(
        url,
        min_size=0,
        max_size=size,
        reset=keep,
        timeout=5,
        statement_cache_size=512,
        server_settings=_SETTINGS | settings,
    )
    return _Pool(pool, size)
