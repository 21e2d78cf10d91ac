"""Reads SQLite outside the event loop, in a limited number of threads. Each read has a read-only connection of its own."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from terracrew.errors import Unavailable
from terracrew.server.db.seam import T, Work
from terracrew.server.db.sqlite.transaction import SqliteTx, connect, drive

MAX_THREADS = 4
MAX_WAIT_SECONDS = 10.0
"""How long a read may wait for a thread."""
MAX_READ_SECONDS = 30.0
"""A read that takes longer is ended; PostgreSQL has the same bound on a statement."""
RETRY_AFTER_SECONDS = 2


class _Reader:
    """A connection, opened by the first thread that uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def run(self, work: Work[T], now: float) -> T:
        if self._connection is None:
            self._connection = connect(self._path, read_only=True)
        self._connection.execute("BEGIN")
        try:
            return drive(work, SqliteTx(self._connection, lambda: now))
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def interrupt(self) -> None:
        """End the running statement. This is called from another thread."""
        if self._connection is not None:
            self._connection.interrupt()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class BackgroundReads:
    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._threads = ThreadPoolExecutor(MAX_THREADS, "sqlite-read")
        self._turns = asyncio.Semaphore(MAX_THREADS)
        self._idle: list[_Reader] = []
        self._busy: set[_Reader] = set()

    async def read(self, work: Work[T]) -> T:
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise Unavailable("too many large reads wait for their turn", retry_after=RETRY_AFTER_SECONDS) from None
        reader = self._idle.pop() if self._idle else _Reader(self._path)
        self._busy.add(reader)
        loop = asyncio.get_running_loop()
        job = self._threads.submit(reader.run, work, self._clock())
        job.add_done_callback(lambda done: self._end_soon(loop, reader, done))
        timer = loop.call_later(MAX_READ_SECONDS, reader.interrupt)
        try:
            return await asyncio.shield(asyncio.wrap_future(job))
        except asyncio.CancelledError:
            reader.interrupt()  # nobody waits for it any more
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """End the running statements and close the connections."""
        for reader in self._busy:
            reader.interrupt()
        await asyncio.to_thread(self._threads.shutdown)
        for reader in (*self._busy, *self._idle):
            reader.close()

    def _end_soon(self, loop: asyncio.AbstractEventLoop, reader: _Reader, done: "Future[Any]") -> None:
        done.exception()  # its caller may have gone
        with contextlib.suppress(RuntimeError):  # the loop was closed before the database
            loop.call_soon_threadsafe(self._end, reader)

    def _end(self, reader: _Reader) -> None:
        self._busy.discard(reader)
        self._idle.append(reader)
        self._turns.release()
