"""The interface of a database, which is the same for SQLite and PostgreSQL.

A unit of work is an `async def` that awaits nothing but its own transaction's statements. PostgreSQL runs it on a
pooled connection. SQLite drives it to its end in one go, several units to a commit. A unit that fails is rolled back alone.
So the same code serves both, and a unit of work that awaits anything else is refused.

What a unit of work must know of the two:
- the first statement that fails ends it: catch the error to raise another, never to continue;
- PostgreSQL may run it again after a lost deadlock, so it leaves no traces outside its transaction;
- a cancelled caller does not know whether it was committed, as after any lost connection;
- `INSERT … SELECT … FROM batch` needs a `WHERE true` before `ON CONFLICT`; the table that is changed has no alias, and
  RETURNING names its columns only (`jobs.id`), never those of `batch`: SQLite knows no better;
- every name of a parameter has one type, and an optional filter says so: `CAST(:x AS text) IS NULL OR …`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, LiteralString, Protocol, TypeAlias, TypeVar

from terracrew.server.db.health import Health
from terracrew.server.db.topics import Topic

Row: TypeAlias = Mapping[str, Any]
Param: TypeAlias = str | int | float | bool | bytes | None
Columns: TypeAlias = Mapping[str, LiteralString]
T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_GROUP_ITEMS = 1_000
"""The most items in a group of `Database.grouped`, which bounds how long a group holds its row locks."""


class Tx(Protocol):
    """One transaction. SQL takes `:named` parameters and stays within the portable subset."""

    @property
    def now(self) -> float:
        """The database's time, in seconds since 1970; the same throughout the transaction."""
        ...

    @property
    def moment(self) -> datetime:
        """The same time as `now`."""
        return datetime.fromtimestamp(self.now, UTC)

    async def all(self, sql: LiteralString, /, **params: Param) -> list[Row]: ...

    async def one(self, sql: LiteralString, /, **params: Param) -> Row | None: ...

    async def value(self, sql: LiteralString, /, **params: Param) -> Any:
        """Return the only column of a row; None if there is no row."""
        row = await self.one(sql, **params)
        return None if row is None else next(iter(row.values()))

    async def run(self, sql: LiteralString, /, **params: Param) -> int:
        """Execute a statement, and return how many rows it changed."""
        ...

    async def each(self, sql: LiteralString, columns: Columns, rows: Sequence[Sequence[Param]]) -> list[Row]:
        """Run one statement for many rows, which it reads from a relation named `batch`.

        `columns` maps each of its columns to a type (text, bigint, double precision, boolean, bytea). PostgreSQL gets
        the rows by `unnest`. SQLite gets those of a read, or of an `UPDATE … FROM batch` that returns nothing, as JSON, if no
        column is double precision or bytea. In other cases it changes one row after the other. No two rows may depend on each
        other's effect; hand them in in the order of their ids, to stay clear of deadlocks.
        """
        ...

    async def each_id(self, sql: LiteralString, ids: Iterable[str]) -> list[Row]:
        """Run one statement for many ids, which it reads from `batch.id`."""
        return await self.each(sql, {"id": "text"}, [(each,) for each in ids])

    def wake(self, topic: Topic, key: str = "") -> None:
        """Wake the listeners of `topic` when this transaction commits."""
        ...

    def on_commit(self, action: Callable[[], None]) -> None:
        """Call a function in this process once the transaction has been committed. It must not fail."""
        ...

    def on_failure(self, action: Callable[[], None]) -> None:
        """Call a function in this process if the transaction was not committed, or if that is unknown. It must not fail."""
        ...


Work: TypeAlias = Callable[[Tx], Awaitable[T]]


class Database(Protocol):
    @property
    def kind(self) -> str:
        """`sqlite` or `postgres`."""
        ...

    @property
    def health(self) -> Health: ...

    async def read(self, work: "Work[T]") -> T:
        """Run a unit of work that only reads, beside the writers."""
        ...

    async def read_in_background(self, work: "Work[T]") -> T:
        """Run a unit of work that only reads and may take long. It never blocks the event loop.

        On SQLite it runs in one of a few other threads, so it must touch nothing but its transaction and what
        any thread may look at. Lists and pages are read in this way. What a dispatch waits for is not.
        """
        ...

    async def write(self, work: "Work[T]") -> T:
        """Run a unit of work. All of it is committed when this returns."""
        ...

    def grouped(
        self,
        work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: int = MAX_GROUP_ITEMS,
    ) -> Callable[[Item], Awaitable[Result]]:
        """Return a function that commits items in groups: while one group is being committed, the next one is collected.

        SQLite blocks the event loop while it runs a group, so items that need several statements have small groups.

        A result that is an exception is raised to its own caller, though the group is committed; an exception of the
        whole group makes each item run alone (unless the database is away, which is told to all of them).
        """
        ...

    def grouped_reads(
        self, work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]]
    ) -> Callable[[Item], Awaitable[Result]]:
        """Return a function that reads for items in groups, as `grouped` writes them. Each read begins after its items came.

        It saves round trips and statements where many connections ask the same question.
        """
        ...

    def listen(self, *topics: Topic) -> AbstractContextManager["Wakeups"]:
        """Subscribe first, then read: every wake-up after this call is seen."""
        ...

    def wake_here(self, topic: Topic, key: str) -> None:
        """Wake the listeners of this server, because what it knows may be wrong."""
        ...

    def wake_others(self, topic: Topic, key: str) -> None:
        """Wake the listeners of the other servers on this database, and not those of this one."""
        ...

    async def ready(self, timeout: float | None = None) -> bool:
        """Return True as soon as the database is believed to answer, which may be at once, or False after the timeout."""
        ...

    async def close(self) -> None: ...


class Wakeups(Protocol):
    """The wake-ups of a listener. Repeated wake-ups of one key that were not read yet are merged.

    The key "" means that anything of the topic may have changed: a server that missed messages of the others sends it.
    """

    def has(self, topic: Topic) -> bool:
        """Return whether a wake-up of this topic waits to be read."""
        ...

    def __aiter__(self) -> AsyncIterator[tuple[str, str]]:
        """Yield one (topic, key) after the other, until the database is closed."""
        ...

    async def get(self, timeout: float | None = None) -> set[tuple[str, str]]:
        """Wait for a wake-up, and return all (topic, key) since the last call. The set is empty after the timeout."""
        ...
