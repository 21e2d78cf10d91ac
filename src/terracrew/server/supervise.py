"""Restarts loops that fail: the error is logged, and the loop starts again after a random delay.

A loop that handles many rows goes on with the others when one of them fails (`FailedRows`), and keeps the lease of a row while it works
on it (`renewing`).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Generator
from typing import Any, cast

from terracrew import backoff
from terracrew.errors import TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.metrics.process import loop_failures

log = get_logger("terracrew.server")


MAX_DELAY_SECONDS = 10.0
MAX_DELAY_WHILE_AWAY_SECONDS = 2.0
"""The longest delay after a transient error, such as a busy database."""
FIRST_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 300.0
"""How long a loop leaves a row alone that it could not handle, at first and at most."""


async def supervise(
    name: str,
    loop: Callable[[], Awaitable[None]],
    *,
    wait: float = 0.5,
    until: asyncio.Event | None = None,
    ready: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Run a loop again whenever it ends. Only here (and at the request boundary) is every exception caught.

    `ready` returns when what all the loops need, the database, is there: a long outage ends for them when it ends.
    """
    delay = wait
    while until is None or not until.is_set():
        started = asyncio.get_running_loop().time()
        longest = MAX_DELAY_SECONDS
        try:
            await loop()
        except Exception as error:
            if (away := _unavailable(error)) is not None:
                log.warning("loop waits", loop=name, reason=away.message)
                longest = MAX_DELAY_WHILE_AWAY_SECONDS
                if ready is not None:
                    await ready()
            else:
                log.exception("loop failed", loop=name)
                loop_failures.labels(name).inc()
        if until is not None and until.is_set():
            return
        if asyncio.get_running_loop().time() - started > 60:
            delay = wait
        delay = min(delay, longest)
        await asyncio.sleep(backoff.jittered(delay))
        delay = min(delay * 2, longest)


def _unavailable(error: Exception) -> Unavailable | None:
    """Return why a loop has to wait, or None if it failed. A loop of several tasks raises a group of errors."""
    if isinstance(error, ExceptionGroup):
        found = [_unavailable(each) for each in cast("ExceptionGroup[Exception]", error).exceptions]
        return found[0] if all(found) else None
    return error if isinstance(error, Unavailable) else None


class FailedRows:
    """The rows that a loop could not handle, for example because somebody changed them by hand. Each is logged once, and tried
    again after a delay that doubles, so that damaged rows neither stop the loop nor take its time."""

    def __init__(self, loop: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._loop, self._clock = loop, clock
        self._failed: dict[str, tuple[float, float]] = {}
        """By row: when it is tried again, and the delay after that."""

    def __len__(self) -> int:
        """Return how many rows fail: a loop that reads a limited number of rows reads so many more."""
        return len(self._failed)

    def due(self, keys: Collection[str]) -> set[str]:
        """Return those of the rows that are to be handled now. Rows that are not among them any more are forgotten."""
        self._failed = {key: each for key, each in self._failed.items() if key in keys}
        now = self._clock()
        return {key for key in keys if key not in self._failed or self._failed[key][0] <= now}

    async def handle(self, keys: Collection[str], handle: Callable[[str], Awaitable[None]], at_once: int) -> int:
        """Handle the rows whose turn has come, so many at a time, and return how many they are."""
        ready, turns = self.due(keys), asyncio.Semaphore(at_once)

        async def turn(key: str) -> None:
            async with turns:
                with self.handling(key):
                    await handle(key)

        async with asyncio.TaskGroup() as tasks:
            for each in keys:
                if each in ready:
                    tasks.create_task(turn(each))
        return len(ready)

    @contextlib.contextmanager
    def handling(self, key: str) -> Generator[None]:
        """Keep an error of one row from the others. Without the database, none can be handled, so that error is raised."""
        try:
            yield
        except Unavailable:
            raise
        except Exception as error:
            if key not in self._failed:
                surprise = None if isinstance(error, TerracrewError) else error
                log.warning(
                    "a row cannot be handled; the others are",
                    loop=self._loop,
                    row=key,
                    reason=str(error),
                    exc_info=surprise,
                )
                loop_failures.labels(self._loop).inc()
            delay = min(self._failed.get(key, (0.0, FIRST_RETRY_SECONDS))[1], MAX_RETRY_SECONDS)
            self._failed[key] = self._clock() + delay, delay * 2
        else:
            self._failed.pop(key, None)


@contextlib.asynccontextmanager
async def renewing(db: Database, renew: Callable[[Tx], Awaitable[None]], period_seconds: float) -> AsyncGenerator[None]:
    """Renew the lease of a row while the block works on it. Without the database, the lease ends, and the block finds that out."""

    async def run() -> None:
        while True:
            await asyncio.sleep(period_seconds)
            await db.write(renew)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()


def wait_seconds(now: float, due_at: float | None, max_seconds: float) -> float:
    """Return how long a loop waits for the row that is due first, and at most."""
    return max_seconds if due_at is None else min(max(due_at - now, 0.0), max_seconds)


class Tasks:
    """Short tasks that nobody waits for: kept from the garbage collector, their errors logged, all ended at the stop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)

    async def join(self) -> None:
        """Wait until all of them have ended, also those that they start."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    async def stop(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Unavailable):  # the caller retries, or does without
            log.warning("task given up", reason=error.message)
        elif error is not None:
            log.error("task failed", exc_info=error)
