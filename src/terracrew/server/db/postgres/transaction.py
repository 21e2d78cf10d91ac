"""A transaction on PostgreSQL, and the translation of its driver's errors."""

from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from types import coroutine
from typing import Any, Literal, LiteralString, NamedTuple, Protocol, cast

import asyncpg

from terracrew.errors import Invalid, TerracrewError, Unavailable
from terracrew.server.db import violations
from terracrew.server.db.seam import A, B, Columns, Param, Row
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


class AskedStatement(NamedTuple):
    """A statement that a unit of work waits for."""

    text: LiteralString
    values: Sequence[object]
    wants: Literal["rows", "row", "count"] = "rows"


@coroutine
def _handed_over(statement: AskedStatement) -> Generator[AskedStatement, Any, Any]:
    """Let `together` answer."""
    return (yield statement)


class PostgresTx:
    """The transaction as a unit of work sees it."""

    def __init__(self, connection: Connection, now: float) -> None:
        self._connection = connection
        self._now = now
        self.wakes: list[Wake] = []
        self.actions: list[Callable[[], None]] = []
        self.failure_actions: list[Callable[[], None]] = []
        self.failure: Exception | None = None
        self._is_gathering = False
        """Whether a part of the unit of work hands over what it asks, instead of waiting for the answer itself."""

    @property
    def now(self) -> float:
        return self._now

    async def all(self, sql: LiteralString, /, **params: Param) -> list[Row]:
        text, names = texts.numbered(sql)
        return await self._ask(AskedStatement(text, texts.values(names, params)))

    async def one(self, sql: LiteralString, /, **params: Param) -> Row | None:
        text, names = texts.numbered(sql)
        return await self._ask(AskedStatement(text, texts.values(names, params), "row"))

    async def run(self, sql: LiteralString, /, **params: Param) -> int:
        text, names = texts.numbered(sql)
        return await self._ask(AskedStatement(text, texts.values(names, params), "count"))

    async def each(self, sql: LiteralString, columns: Columns, rows: Sequence[Sequence[Param]]) -> list[Row]:
        text = texts.batch_from_arrays(sql, tuple(columns.items()))
        return await self._ask(AskedStatement(text, [*map(list, zip(*rows, strict=True))])) if rows else []

    async def together(self, first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
        parts, results = (first, second), dict[int, Any]()
        answers: dict[int, Any] = {0: None, 1: None}
        try:
            if self._is_gathering:  # this is a part itself, and what it asks is sent with what the other part asks
                return await first, await second
            while answers:
                asked = self._continue(parts, answers, results)
                answers = dict(zip(asked, await self._answer_all(list(asked.values())), strict=True))
        finally:
            for part in parts:
                part.close()
        return results[0], results[1]

    def wake(self, topic: Topic, key: str = "") -> None:
        self.wakes.append((topic, key))

    def on_commit(self, action: Callable[[], None]) -> None:
        self.actions.append(action)

    def on_failure(self, action: Callable[[], None]) -> None:
        self.failure_actions.append(action)

    def _continue(
        self, parts: Sequence[Coroutine[Any, Any, Any]], answers: dict[int, Any], results: dict[int, Any]
    ) -> dict[int, AskedStatement]:
        """Give each part its answer. Returns what they ask next, and adds the results of those that have ended."""
        asked: dict[int, AskedStatement] = {}
        self._is_gathering = True
        try:
            for place, answer in answers.items():
                try:
                    asked[place] = parts[place].send(answer)
                except StopIteration as end:
                    results[place] = end.value
        finally:
            self._is_gathering = False
        return asked

    async def _ask(self, statement: AskedStatement) -> Any:
        return await (_handed_over(statement) if self._is_gathering else self._answer(statement))

    async def _answer_all(self, statements: Sequence[AskedStatement]) -> list[Any]:
        if len(statements) < 2 or any(each.wants == "count" for each in statements):
            return [await self._answer(each) for each in statements]
        first, second = statements
        combined = texts.combined(first.text, second.text, len(first.values))
        with self._failing():
            rows = await self._connection.fetch(combined.text, *first.values, *second.values)
        found = dict(zip(combined.returning, _apart(rows, len(combined.returning)), strict=True))
        answers = found.get(0, []), found.get(1, [])
        return [
            answer if each.wants == "rows" else next(iter(answer), None)
            for each, answer in zip(statements, answers, strict=True)
        ]

    async def _answer(self, statement: AskedStatement) -> Any:
        connection, text, values = self._connection, statement.text, statement.values
        with self._failing():
            match statement.wants:
                case "rows":
                    return [dict(row) for row in await connection.fetch(text, *values)]
                case "row":
                    row = await connection.fetchrow(text, *values)
                    return None if row is None else dict(row)
                case "count":
                    count = (await connection.execute(text, *values)).rpartition(" ")[2]
                    return int(count) if count.isdecimal() else 0

    @contextmanager
    def _failing(self) -> Generator[None]:
        try:
            with translated():
                yield
        except Exception as error:
            self.failure = self.failure or error
            raise


def _apart(rows: Sequence[Any], count: int) -> list[list[Row]]:
    """Return the rows of each of the combined statements that return rows."""
    found: list[list[Row]] = [[] for _ in range(count)]
    if not rows:
        return found
    names: list[str] = list(rows[0].keys())
    begins = [place for place, name in enumerate(names) if name == texts.ROW_NUMBER]
    for own, begin, end in zip(found, begins, [*begins[1:], len(names)], strict=True):
        columns = names[begin + 1 : end]
        numbered = sorted((row[begin], row) for row in rows if row[begin] is not None)
        own += (dict(zip(columns, row[begin + 1 : end], strict=True)) for _, row in numbered)
    return found


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
