"""A transaction on PostgreSQL, and the translation of its driver's errors."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, Protocol, cast

import asyncpg

from terracrew.errors import Invalid, TerracrewError, Unavailable
from terracrew.server.db import violations
from terracrew.server.db.seam import Columns, Param, Row, Tx
from terracrew.server.db.statements import sql as texts
from terracrew.server.db.topics import Topic
from terracrew.server.db.wakeups import Wake

# SQLSTATE: connection, log-in, no database, transaction rollback, resources, operator, disk; no lock in time, idle too
# long, a standby that is to become the primary
_PASSING = ("08", "28", "3D", "40", "53", "57", "58", "55P03", "25P03", "25P04", "25006")
_AWAY = ("08", "57P01", "57P02", "57P03")  # no connection; shut down, crashed, starting up
_ROLLED_BACK = ("40001", "40P01")  # serialization failure, deadlock: certainly not committed, so worth another try


class Connection(Protocol):
    """The methods of asyncpg's connection that are used here. asyncpg itself has no types."""

    async def fetch(self, query: str, /, *args: object) -> list[Any]: ...
    async def fetchrow(self, query: str, /, *args: object) -> Any: ...
    async def fetchval(self, query: str, /, *args: object) -> Any: ...
    async def execute(self, query: str, /, *args: object) -> str: ...
    async def close(self) -> None: ...
    async def add_listener(self, channel: str, callback: Any) -> None: ...
    def add_termination_listener(self, callback: Any) -> None: ...
    def transaction(self) -> Any: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


class PostgresTx(Tx):
    """The transaction as a unit of work sees it."""

    def __init__(self, connection: Connection, now: float) -> None:
        self._connection = connection
        self._now = now
        self.wakes: list[Wake] = []
        self.actions: list[Callable[[], None]] = []
        self.failure_actions: list[Callable[[], None]] = []
        self.failure: Exception | None = None

    @property
    def now(self) -> float:
        return self._now

    async def all(self, sql: LiteralString, /, **params: Param) -> list[Row]:
        text, names = texts.numbered(sql)
        return await self._rows(text, texts.values(names, params))

    async def one(self, sql: LiteralString, /, **params: Param) -> Row | None:
        text, names = texts.numbered(sql)
        with self._failing():
            row = await self._connection.fetchrow(text, *texts.values(names, params))
        return None if row is None else dict(row)

    async def run(self, sql: LiteralString, /, **params: Param) -> int:
        text, names = texts.numbered(sql)
        with self._failing():
            count = (await self._connection.execute(text, *texts.values(names, params))).rpartition(" ")[2]
        return int(count) if count.isdecimal() else 0

    async def each(self, sql: LiteralString, columns: Columns, rows: Sequence[Sequence[Param]]) -> list[Row]:
        text = texts.batch_from_arrays(sql, tuple(columns.items()))
        return await self._rows(text, [*map(list, zip(*rows, strict=True))]) if rows else []

    def wake(self, topic: Topic, key: str = "") -> None:
        self.wakes.append((topic, key))

    def on_commit(self, action: Callable[[], None]) -> None:
        self.actions.append(action)

    def on_failure(self, action: Callable[[], None]) -> None:
        self.failure_actions.append(action)

    async def _rows(self, text: LiteralString, values: Sequence[object]) -> list[Row]:
        with self._failing():
            return [dict(row) for row in await self._connection.fetch(text, *values)]

    @contextmanager
    def _failing(self) -> Generator[None]:
        try:
            with translated():
                yield
        except Exception as error:
            self.failure = self.failure or error
            raise


def is_away(error: BaseException) -> bool:
    """Return whether an error means that the database cannot be reached, and not that a statement was wrong."""
    cause = error.__cause__
    if isinstance(cause, asyncpg.PostgresError):
        state: str = cast("Any", cause).sqlstate or ""
        return state.startswith(_AWAY)
    return isinstance(cause, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError)


@contextmanager
def translated() -> Generator[None]:
    """Translate the driver's errors to Terracrew's."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _meaning(error) or error from error
    except asyncpg.InterfaceError as error:
        if "clos" not in str(error):  # "connection is closed", "pool is closing"; the rest are our own mistakes
            raise
        raise Unavailable(f"the connection to PostgreSQL was lost: {error}") from error
    except asyncpg.InternalClientError as error:  # the connection was closed, but the driver has not processed that yet
        raise Unavailable(f"the connection to PostgreSQL was lost: {error}") from error
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"PostgreSQL does not answer: {str(error) or 'no answer in time'}") from error


def _meaning(error: Any) -> TerracrewError | None:
    state: str = error.sqlstate or ""
    if state.startswith("22"):
        return Invalid(f"a value cannot be stored: {error}")
    if isinstance(error, asyncpg.InvalidCachedStatementError):  # the tables were changed under a prepared statement
        return Unavailable(f"try again: {error}", rolled_back=True)
    if state.startswith(_PASSING):
        return Unavailable(f"PostgreSQL cannot do this now: {error}", rolled_back=state in _ROLLED_BACK)
    return violations.from_sqlstate(state, error.constraint_name or "", error.table_name or "", error.column_name or "")
