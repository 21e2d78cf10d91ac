"""A database that fails when it is told to: before a unit of work, in the middle of it, or after its commit."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, LiteralString, TypeAlias, TypeVar

import psycopg

from terracrew.errors import Unavailable
from terracrew.server.db.group import Grouped
from terracrew.server.db.health import Health
from terracrew.server.db.seam import MAX_GROUP_ITEMS, Columns, Database, Param, Row, Tx, Wakeups, Work
from terracrew.server.db.topics import Topic

TIMEOUT_SECONDS = 30.0
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
Item = TypeVar("Item")
Result = TypeVar("Result")
Fault: TypeAlias = Literal["none", "before", "middle", "after"]
"""`middle`: the connection is really cut, or the commit really refused; `after`: committed, and the caller told otherwise."""


async def patient(work: Callable[[], Awaitable[T]]) -> T:
    """Run the test's own reads, which must succeed even if the test has just broken the database."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            try:
                return await work()
            except Unavailable:
                await asyncio.sleep(0.01)


class Faulty:
    def __init__(self, db: Database, cut: "Cut") -> None:
        self._db, self._cut = db, cut
        self.faults: deque[Fault] = deque()
        """What becomes of the next writes."""
        self.is_dead = False
        """The process that used it was killed."""

    @property
    def kind(self) -> str:
        return self._db.kind

    @property
    def health(self) -> Health:
        return self._db.health

    async def read(self, work: Work[T]) -> T:
        self._check()
        return await self._db.read(work)

    async def read_in_background(self, work: Work[T]) -> T:
        self._check()
        return await self._db.read_in_background(work)

    async def write(self, work: Work[T]) -> T:
        self._check()
        fault = self.faults.popleft() if self.faults else "none"
        if fault == "before":
            raise Unavailable("it fails before anything is done")
        if fault == "middle":
            return await self._broken(work)
        if fault == "after":
            return await self._unheard(work)
        result = await self._db.write(work)
        if self.is_dead:
            raise Unavailable("it is stored, and nobody hears of that")
        return result

    async def _unheard(self, work: Work[T]) -> T:
        """Commit, and act as if the answer to the commit had been lost."""
        unheard: list[Uncertain] = []

        async def then_nothing(tx: Tx) -> T:
            unheard[:] = [Uncertain(tx)]
            return await work(unheard[0])

        await self._db.write(then_nothing)
        for action in unheard[0].failure_actions:
            action()
        raise Unavailable("it is stored, and nobody hears of that")

    async def _broken(self, work: Work[T]) -> T:
        async def then_cut(tx: Tx) -> T:
            result = await work(tx)
            self._cut.cut()
            return result

        try:
            return await self._db.write(then_cut)
        finally:
            self._cut.mend()

    def grouped(
        self,
        work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: int = MAX_GROUP_ITEMS,
    ) -> Callable[[Item], Awaitable[Result]]:
        return Grouped(self.write, work, max_items)

    def grouped_reads(
        self, work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]]
    ) -> Callable[[Item], Awaitable[Result]]:
        return Grouped(self.read, work)

    def listen(self, *topics: Topic) -> AbstractContextManager[Wakeups]:
        return self._db.listen(*topics)

    async def ready(self, timeout: float | None = None) -> bool:
        return self.is_dead or await self._db.ready(timeout)

    async def close(self) -> None:
        """Do nothing: the code that opened the database closes it."""

    def _check(self) -> None:
        if self.is_dead:
            raise Unavailable("this server was killed")


class Uncertain(Tx):
    """A transaction that is committed, of which its unit of work does not hear."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.failure_actions: list[Callable[[], None]] = []

    @property
    def now(self) -> float:
        return self._tx.now

    async def all(self, sql: LiteralString, /, **params: Param) -> list[Row]:
        return await self._tx.all(sql, **params)

    async def one(self, sql: LiteralString, /, **params: Param) -> Row | None:
        return await self._tx.one(sql, **params)

    async def run(self, sql: LiteralString, /, **params: Param) -> int:
        return await self._tx.run(sql, **params)

    async def each(self, sql: LiteralString, columns: Columns, rows: Sequence[Sequence[Param]]) -> list[Row]:
        return await self._tx.each(sql, columns, rows)

    def wake(self, topic: Topic, key: str = "") -> None:
        self._tx.wake(topic, key)

    def on_commit(self, action: Callable[[], None]) -> None:
        """Forget the action: nobody hears of the commit."""

    def on_failure(self, action: Callable[[], None]) -> None:
        self.failure_actions.append(action)


class Cut:
    """How a database is broken in the middle of a transaction, for real."""

    def cut(self) -> None:
        raise NotImplementedError

    def mend(self) -> None:
        """Until then it stays broken."""

    def close(self) -> None:
        pass


class RefusedCommit(Cut):
    """SQLite takes everything but the commit."""

    def __init__(self, db: Any) -> None:
        self._writer: sqlite3.Connection = db._writer

    def cut(self) -> None:
        self._writer.set_authorizer(_no_commit)

    def mend(self) -> None:
        self._writer.set_authorizer(None)


def _no_commit(action: int, argument: str | None, *_: object) -> int:
    is_commit = action == sqlite3.SQLITE_TRANSACTION and argument == "COMMIT"
    return sqlite3.SQLITE_DENY if is_commit else sqlite3.SQLITE_OK


class LostConnections(Cut):
    """PostgreSQL ends every connection to the database, even in the middle of a transaction."""

    def __init__(self, url: str) -> None:
        address, _, self._name = url.rpartition("/")
        self._administrator = psycopg.connect(f"{address}/postgres", autocommit=True)

    def cut(self) -> None:
        self._administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [self._name]
        )

    def close(self) -> None:
        self._administrator.close()
