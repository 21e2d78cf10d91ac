"""SQLite behind the seam: one writer thread with group commit, a few readers beside it, one process to a file."""

import asyncio
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from terracrew.errors import Conflict, Unavailable
from terracrew.server.db.group import Grouped
from terracrew.server.db.migrate import migrate
from terracrew.server.db.seam import Item, Result, T, Tx, Work
from terracrew.server.db.sqlite_tx import SqliteTx, connect, drive
from terracrew.server.db.wakeups import Hub, Listener, Wake

READERS = 2  # so that one slow read does not hold up all; more only fight over the interpreter's lock
WRITE_GROUP, READ_GROUP = 500, 8  # units of work to a commit, to a snapshot


@dataclass(slots=True, eq=False)
class _Unit:
    """One caller's unit of work, and what became of it."""

    work: Work[Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    wakes: list[Wake] = field(default_factory=list[Wake])


_Queue: TypeAlias = "queue.SimpleQueue[_Unit | None]"


class SqliteDatabase:
    """Use `open_database()`; this expects a file that no other process has."""

    kind = "sqlite"

    def __init__(self, path: Path, lock: int) -> None:
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._hub = Hub()
        self._writes: _Queue = queue.SimpleQueue()
        self._reads: _Queue = queue.SimpleQueue()
        self._closed = False
        self._threads = [
            threading.Thread(
                target=self._serve, args=(self._writes, _commit, path, False), name="sqlite-writer", daemon=True
            )
        ]
        self._threads += [
            threading.Thread(
                target=self._serve, args=(self._reads, _look, path, True), name=f"sqlite-reader-{n}", daemon=True
            )
            for n in range(READERS)
        ]
        for thread in self._threads:
            thread.start()

    async def read(self, work: Work[T]) -> T:
        return await self._submit(self._reads, work)

    async def write(self, work: Work[T]) -> T:
        return await self._submit(self._writes, work)

    def grouped(
        self, work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]]
    ) -> Grouped[Item, Result]:
        return Grouped(self.write, work)

    def listen(self, *topics: str) -> AbstractContextManager[Listener]:
        return self._hub.listen(*topics)

    async def close(self) -> None:
        """Finish what was handed in, then let go of the file."""
        if self._closed:
            return
        self._closed = True
        self._hub.close()
        self._writes.put(None)
        for _ in range(READERS):
            self._reads.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        os.close(self._lock)

    async def _submit(self, to: _Queue, work: Work[T]) -> T:
        if self._closed:
            raise Unavailable("the database is closed")
        unit = _Unit(work, self._loop.create_future())
        to.put(unit)
        return await unit.future

    def _serve(
        self, units: _Queue, run: Callable[[sqlite3.Connection, list[_Unit]], None], path: Path, read_only: bool
    ) -> None:
        """A thread's life: take all that waits, run it, let the results go in one call."""
        connection = connect(path, read_only=read_only)
        try:
            while group := _take(units, READ_GROUP if read_only else WRITE_GROUP):
                try:
                    run(connection, group)
                except Exception as error:  # this thread serves everybody and must live on
                    for unit in group:
                        unit.error, unit.wakes = unit.error or error, []
                try:
                    self._loop.call_soon_threadsafe(self._deliver, group)
                except RuntimeError:  # the loop was closed before the database: nobody waits any more
                    return
        finally:
            connection.close()

    def _deliver(self, group: list[_Unit]) -> None:
        self._hub.publish(dict.fromkeys(wake for unit in group for wake in unit.wakes))
        for unit in group:
            if unit.future.done():  # its caller has gone
                continue
            if unit.error is None:
                unit.future.set_result(unit.result)
            else:
                unit.future.set_exception(unit.error)


async def open_sqlite(path: Path) -> SqliteDatabase:
    """Open the file for this process alone and bring its tables up to date."""
    database = SqliteDatabase(*_claim(path))
    try:
        await migrate(database.write)
    except BaseException:
        await database.close()
        raise
    return database


def _claim(path: Path) -> tuple[Path, int]:
    """Make the file if need be, and take the lock beside it for as long as the returned descriptor is open."""
    path = path.expanduser().resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connect(path).close()  # so that no reader finds the file before it has its journal mode
    return path, lock


def _lock(path: Path) -> int:
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise Conflict(
            f"{path} is in use by another server (process {holder}). SQLite serves one server process: "
            "stop that one, or use PostgreSQL for several",
            path=str(path),
            holder=holder,
        ) from None
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _take(units: _Queue, limit: int) -> list[_Unit]:
    """Wait for one and take those behind it; none once the database is being closed."""
    first = units.get()
    if first is None:
        return []
    group = [first]
    while len(group) < limit:
        try:
            unit = units.get_nowait()
        except queue.Empty:
            break
        if unit is None:
            units.put(None)
            break
        group.append(unit)
    return group


def _commit(connection: sqlite3.Connection, group: list[_Unit]) -> None:
    """One transaction for all of them; a unit that fails takes only its own savepoint back."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for unit in group:
            if unit.future.cancelled():
                continue
            connection.execute("SAVEPOINT unit")
            _try(unit, connection)
            if not connection.in_transaction:  # a full disk, say: SQLite itself has taken everything back
                raise sqlite3.OperationalError("the transaction was rolled back")
            if unit.error is not None:
                connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        for unit in group:
            unit.wakes = []
            unit.error = unit.error or Unavailable(f"nothing was stored: {error}")


def _look(connection: sqlite3.Connection, group: list[_Unit]) -> None:
    """One snapshot for all of them, taken after each was handed in, so that everybody sees his own writes."""
    connection.execute("BEGIN")
    for unit in group:
        if not unit.future.cancelled():
            _try(unit, connection)
            unit.wakes = []
    connection.execute("ROLLBACK")


def _try(unit: _Unit, connection: sqlite3.Connection) -> None:
    tx = SqliteTx(connection)
    try:
        unit.result = drive(unit.work, tx)
        unit.wakes = tx.wakes
    except BaseException as error:  # the caller's to handle: this thread serves everybody
        unit.error = error
