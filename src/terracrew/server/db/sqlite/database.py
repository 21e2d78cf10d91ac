"""SQLite behind the storage interface: statements run on the event loop, a thread waits for the disk, and commits are grouped. Only
one process may use a file."""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terracrew.errors import Conflict, Unavailable
from terracrew.server.db.clock import SteadyClock
from terracrew.server.db.clock_reads import HAS_DEADLINE, NEWEST
from terracrew.server.db.group import Grouped, call_all
from terracrew.server.db.health import Health
from terracrew.server.db.migrate import migrate
from terracrew.server.db.seam import MAX_GROUP_ITEMS, Item, Result, T, Tx, Work
from terracrew.server.db.sqlite.background import BackgroundReads
from terracrew.server.db.sqlite.grouped_reads import GroupedReads
from terracrew.server.db.sqlite.transaction import SqliteTx, connect, drive
from terracrew.server.db.topics import Topic
from terracrew.server.db.wakeups import Listener, Wake, WakeupBus
from terracrew.system import durable
from terracrew.system.durable import AlreadyLockedError

MAX_UNITS_PER_COMMIT = 500
MAX_GROUP_SECONDS = 0.005
"""A group that blocks the event loop for longer leaves the remaining units to the next one."""
BUSY_TIMEOUT_SECONDS = 5.0
"""Writers fail after another process has locked the file for this long."""
BUSY_PAUSE_SECONDS = 0.02


@dataclass(slots=True, eq=False)
class _Unit:
    """One caller's unit of work, and its outcome."""

    work: Work[Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    wakes: list[Wake] = field(default_factory=list[Wake])
    actions: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    failure_actions: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class SqliteDatabase:
    """Use `open_database()`; this expects a file that no other process has.

    Statements run on the event loop's own thread: they take microseconds, and handing each to another thread costs more, as
    the two fight over the interpreter's lock. Only the commit, which waits for the disk, goes to a thread; what is handed in
    meanwhile gathers for the next group.
    """

    kind = "sqlite"

    def __init__(self, path: Path, lock: int, clock: Callable[[], float] | None = None) -> None:
        self._lock = lock
        self._clock = clock or SteadyClock()
        self._loop = asyncio.get_running_loop()
        self._bus = WakeupBus()
        self._writer = connect(path)
        self._reader = connect(path, read_only=True)
        self._disk = ThreadPoolExecutor(1, "sqlite-commit")
        self._background = BackgroundReads(path, self._clock)
        self._waiting: deque[_Unit] = deque()
        self.health = Health(lambda: len(self._waiting))
        self._is_writing = False
        self._is_in_group = False
        """Whether the writing connection has a transaction, or is committing one in its thread."""
        self._busy_since: float | None = None
        self._idle = asyncio.Event()
        self._closed = False
        self._has_clock = False

    async def read(self, work: Work[T]) -> T:
        return self._read_now(work)

    def _read_now(self, work: Work[T]) -> T:
        """Read with the writing connection while it is free: it has the changed pages in memory, and another one must load them."""
        if self._closed:
            raise Unavailable("the database is closed")
        connection = self._reader if self._is_in_group else self._writer
        before = connection.total_changes
        connection.execute("BEGIN")
        try:
            found = drive(work, SqliteTx(connection, self._clock))
            if connection.total_changes != before:
                raise sqlite3.OperationalError("a unit of work of `read` is read-only: what it wrote was rolled back")
            return found
        finally:
            if connection.in_transaction:  # a disk that fails may have ended it
                connection.execute("ROLLBACK")

    async def read_in_background(self, work: Work[T]) -> T:
        if self._closed:
            raise Unavailable("the database is closed")
        return await self._background.read(work)

    async def write(self, work: Work[T]) -> T:
        if self._closed:
            raise Unavailable("the database is closed")
        unit = _Unit(work, self._loop.create_future())
        self._waiting.append(unit)
        if not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._run_group)  # includes other writes of this turn of the loop
        return await unit.future

    def grouped(
        self,
        work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: int = MAX_GROUP_ITEMS,
    ) -> Grouped[Item, Result]:
        return Grouped(self.write, work, max_items)

    def grouped_reads(
        self, work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]]
    ) -> GroupedReads[Item, Result]:
        return GroupedReads(self._read_now, work)

    def listen(self, *topics: Topic) -> AbstractContextManager[Listener]:
        return self._bus.listen(*topics)

    def wake_here(self, topic: Topic, key: str) -> None:
        self._bus.publish([(topic, key)])

    def wake_others(self, topic: Topic, key: str) -> None:
        """Do nothing: SQLite has one server."""

    async def ready(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - the seam has it
        """Return True: a file is always available. A caller that meets an error of the disk gets that error."""
        return True

    async def close(self) -> None:
        """Finish the units of work that were submitted, then release the file."""
        if self._closed:
            return
        self._closed = True
        self._bus.close()
        while self._is_writing:
            self._idle.clear()
            await self._idle.wait()
        await self._background.close()
        await asyncio.to_thread(self._disk.shutdown)
        self._reader.close()
        self._writer.close()
        os.close(self._lock)

    def _run_group(self) -> None:
        """Run all waiting units of work in one transaction. A unit that fails is rolled back alone: to its own savepoint, or with
        the transaction if there is no other."""
        group: list[_Unit] = []
        started = time.monotonic()
        before = self._writer.total_changes
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._put_off(error)
            return
        self._busy_since = None
        self._is_in_group = True
        try:
            has_stored_clock = self._store_clock()
            self._run_units(group, is_alone=len(self._waiting) == 1 and not has_stored_clock)
        except sqlite3.Error as error:
            self._end(group, started, error)
            return
        if not self._writer.in_transaction:
            self._end(group, None, None)  # the only unit has failed
            return
        if self._writer.total_changes == before:
            self._end(group, None, _try(self._writer.execute, "COMMIT"))  # nothing to wait for
            return
        commit = self._disk.submit(_try, self._writer.execute, "COMMIT")
        commit.add_done_callback(lambda done: self._soon(group, started, done.result()))

    def _put_off(self, error: sqlite3.Error) -> None:
        """Try again soon if another process has locked the file, without blocking the event loop. All callers get any other error."""
        now = time.monotonic()
        self._busy_since = self._busy_since or now
        is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        if is_busy and now - self._busy_since < BUSY_TIMEOUT_SECONDS:
            self._loop.call_later(BUSY_PAUSE_SECONDS, self._run_group)
            return
        self._busy_since = None
        group, self._waiting = list(self._waiting), deque()
        self._end(group, now, error)

    def _run_units(self, group: list[_Unit], *, is_alone: bool) -> None:
        until = time.monotonic() + MAX_GROUP_SECONDS
        while self._waiting and len(group) < MAX_UNITS_PER_COMMIT:
            unit = self._waiting.popleft()
            if unit.future.cancelled():
                continue
            group.append(unit)
            if not is_alone:
                self._writer.execute("SAVEPOINT unit")
            tx = SqliteTx(self._writer, self._clock)
            unit.failure_actions = tx.failure_actions
            try:
                unit.result, unit.wakes, unit.actions = drive(unit.work, tx), tx.wakes, tx.actions
            except BaseException as error:  # the caller's to handle: this group is everybody's
                unit.error = error
                if isinstance(error, Unavailable):
                    self.health.refused("storage", error.message)
            if (
                not self._writer.in_transaction
            ):  # SQLite itself has rolled everything back, for example because the disk is full
                raise sqlite3.OperationalError("the transaction was rolled back")
            if unit.error is not None:
                self._writer.execute("ROLLBACK" if is_alone else "ROLLBACK TO unit")
            if is_alone:
                return
            self._writer.execute("RELEASE unit")
            if time.monotonic() > until:
                return

    def _store_clock(self) -> bool:
        """Store the correction together with other writes, which always happen while a runner is connected."""
        if isinstance(self._clock, SteadyClock) and self._has_clock and self._clock.is_to_be_stored:
            self._writer.execute("INSERT OR REPLACE INTO clock VALUES ('wall', ?, ?)", self._clock.store())
            return True
        return False

    async def resume_clock(self) -> None:
        """Continue with the time of the earlier process, once the tables exist."""
        if isinstance(self._clock, SteadyClock):
            clock = self._clock
            row = await self.read(lambda tx: tx.one("SELECT correction, stored_at FROM clock WHERE name = 'wall'"))
            correction, stored_at = (row["correction"], row["stored_at"]) if row else (0.0, 0.0)
            if correction < 0 and await self.read(lambda tx: tx.one(HAS_DEADLINE)) is None:
                correction = 0.0  # no deadline is running that the step forward could end too soon
            newest = await self.read(lambda tx: tx.one(NEWEST))
            clock.resume(correction, stored_at, newest["newest"] or 0.0 if newest else 0.0)
        self._has_clock = True

    def _soon(self, group: list[_Unit], started: float, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed before the database: nobody waits any more
            self._loop.call_soon_threadsafe(self._end, group, started, error)

    def _end(self, group: list[_Unit], started: float | None, error: BaseException | None) -> None:
        """Let results and wake-ups go, once it is stored or known not to be; then the next group has its turn.

        `started` is None where nothing was written, which says nothing about the disk.
        """
        self._is_in_group = False
        if error is not None:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            self.health.refused("busy" if is_busy else "storage", str(error))
            if self._writer.in_transaction:
                _try(self._writer.execute, "ROLLBACK")
            for unit in group:
                unit.wakes, unit.actions = [], []
                unit.error = unit.error or Unavailable(f"nothing was stored: {error}")
        elif started is not None:
            self.health.committed(started)
        self._bus.publish(dict.fromkeys(wake for unit in group for wake in unit.wakes))
        for unit in group:
            call_all(unit.actions if unit.error is None else unit.failure_actions)
            if unit.future.done():  # its caller has gone
                continue
            if unit.error is None:
                unit.future.set_result(unit.result)
            else:
                unit.future.set_exception(unit.error)
        if self._waiting:
            self._loop.call_soon(self._run_group)
        else:
            self._is_writing = False
            self._idle.set()


async def open_sqlite(path: Path, clock: Callable[[], float] | None = None) -> SqliteDatabase:
    """Open the file for this process alone and bring its tables up to date."""
    database = SqliteDatabase(*_claim(path), clock)
    try:
        await migrate(database.write)
        await database.resume_clock()
    except BaseException:
        await database.close()
        raise
    return database


def _claim(path: Path) -> tuple[Path, int]:
    """Create the file if it is missing, and lock it for as long as the returned descriptor is open."""
    path = path.expanduser().resolve()
    durable.make_directory(path.parent, 0o777)
    lock = _lock(path)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connect(path).close()  # so that no reader finds the file before it has its journal mode
    durable.sync_directory(path.parent)  # SQLite does this for its journals only
    return path, lock


def _lock(path: Path) -> int:
    try:
        return durable.acquire_lock(path.with_name(path.name + ".lock"))
    except AlreadyLockedError as error:
        raise Conflict(
            f"{path} is in use by another server (process {error.holder}). SQLite serves one server process: "
            "stop that one, or use PostgreSQL for several",
            path=str(path),
            holder=error.holder,
        ) from None


def _try(work: Callable[[str], object], statement: str) -> BaseException | None:
    """Call a function and return its error, for a thread whose exceptions would not be seen."""
    try:
        work(statement)
    except BaseException as error:
        return error
    return None
