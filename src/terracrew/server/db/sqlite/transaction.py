"""A transaction on SQLite: its statements run at once and never suspend."""

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, LiteralString, TypeVar

from terracrew.errors import Invalid, Unavailable
from terracrew.server.db import violations
from terracrew.server.db.seam import Columns, Param, Row, Tx, Work
from terracrew.server.db.statements import sql as texts
from terracrew.server.db.topics import Topic
from terracrew.server.db.wakeups import Wake

T = TypeVar("T")
_JSON_TYPES = {"text", "bigint", "boolean"}
_MIN_INTEGER, _MAX_INTEGER = -(1 << 63), (1 << 63) - 1
_NEVER_ITS_FAULT = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
}


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection that is durable at every commit. Only one thread at a time may use it."""
    connection = sqlite3.connect(
        path, isolation_level=None, cached_statements=512, timeout=5.0, check_same_thread=False
    )
    # Waiting is fine while opening; later it would block the event loop.
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "temp_store = MEMORY",
        "secure_delete = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA busy_timeout = 0")
    return connection


class SqliteTx(Tx):
    """The transaction as a unit of work sees it."""

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float] = time.time) -> None:
        self.connection = connection
        self._clock = clock  # there is one process on one machine, so its clock is the database's
        self._now: float | None = None
        self.wakes: list[Wake] = []
        self.actions: list[Callable[[], None]] = []
        self.failure_actions: list[Callable[[], None]] = []
        self.failure: Exception | None = None

    @property
    def now(self) -> float:
        if self._now is None:
            self._now = self._clock()
        return self._now

    async def all(self, sql: LiteralString, /, **params: Param) -> list[Row]:
        self._check()
        try:
            return _rows(self.connection.execute(texts.for_sqlite(sql), params))
        except Exception as error:
            raise self._failed(error) from error

    async def one(self, sql: LiteralString, /, **params: Param) -> Row | None:
        self._check()
        try:
            cursor = self.connection.execute(texts.for_sqlite(sql), params)
            try:
                row = cursor.fetchone()
                names = cursor.description
            finally:
                cursor.close()  # an unfinished statement would hold up the commit, and keep a reader's snapshot
        except Exception as error:
            raise self._failed(error) from error
        return None if row is None else {name[0]: value for name, value in zip(names, row, strict=True)}

    async def run(self, sql: LiteralString, /, **params: Param) -> int:
        self._check()
        try:
            cursor = self.connection.execute(texts.for_sqlite(sql), params)
            return len(cursor.fetchall()) if cursor.description else max(cursor.rowcount, 0)
        except Exception as error:
            raise self._failed(error) from error

    async def each(self, sql: LiteralString, columns: Columns, rows: Sequence[Sequence[Param]]) -> list[Row]:
        self._check()
        if not rows:
            return []
        try:
            # A statement gives up the interpreter's lock at each row, and beside a thread that renders a page it waits to get it back.
            is_one = len(rows) > 1 and (texts.is_read(sql) or texts.is_update_of_batch(sql))
            if is_one and (batch := _json_of(columns, rows)) is not None:
                return _rows(self.connection.execute(texts.batch_from_json(sql, tuple(columns)), (batch,)))
            text = texts.batch_from_row(sql, tuple(columns))
            cursor = self.connection.execute(text, rows[0])
            if cursor.description is None:
                self.connection.executemany(text, rows[1:])
                return []
            return _rows(cursor) + [row for values in rows[1:] for row in _rows(self.connection.execute(text, values))]
        except Exception as error:
            raise self._failed(error) from error

    def wake(self, topic: Topic, key: str = "") -> None:
        self.wakes.append((topic, key))

    def on_commit(self, action: Callable[[], None]) -> None:
        self.actions.append(action)

    def on_failure(self, action: Callable[[], None]) -> None:
        self.failure_actions.append(action)

    def _check(self) -> None:
        """Refuse further statements after an error, as PostgreSQL does."""
        if self.failure is not None:
            raise RuntimeError(
                "a statement of this transaction has failed; let its error end the unit of work"
            ) from self.failure

    def _failed(self, error: Exception) -> Exception:
        self.failure = self._translated(error)
        return self.failure

    def _translated(self, error: Exception) -> Exception:
        match error:
            case sqlite3.IntegrityError():
                return violations.from_sqlite(error, self.connection) or error
            case OverflowError() | UnicodeEncodeError():
                return Invalid(f"a value cannot be stored: {error}")
            # An error of Python's own, such as a text that is not UTF-8, has no code.
            case sqlite3.OperationalError() if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NEVER_ITS_FAULT:
                return Unavailable(f"the database cannot do this now: {error}")
            case _:
                return error


def drive(work: Work[T], tx: SqliteTx) -> T:
    """Run a unit of work to its end, without suspending."""
    steps = work(tx).__await__()
    try:
        steps.send(None)
    except StopIteration as end:
        if tx.failure is not None:  # swallowed by the unit, whose work is not whole
            raise tx.failure from None
        return end.value
    steps.close()
    raise RuntimeError("a unit of work awaited something other than its own transaction; do that before or after it")


def _json_of(columns: Columns, rows: Sequence[Sequence[Param]]) -> str | None:
    """Return the rows as JSON, or None if a value would be changed by that."""
    if not _JSON_TYPES.issuperset(columns.values()):
        return None
    numbers = [place for place, kind in enumerate(columns.values()) if kind == "bigint"]
    if any(
        isinstance(number := row[place], int) and not _MIN_INTEGER <= number <= _MAX_INTEGER
        for row in rows
        for place in numbers
    ):
        return None  # SQLite would read it as a number with a fraction, instead of refusing it
    text = json.dumps(rows, ensure_ascii=False)  # half a surrogate pair is then refused, as it is outside of JSON
    return None if "\\u0000" in text else text


def _rows(cursor: sqlite3.Cursor) -> list[Row]:
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    if not rows:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in rows]
