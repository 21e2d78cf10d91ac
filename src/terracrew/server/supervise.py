"""Restarts loops that fail: the error is logged, and the loop starts again after a random delay."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from terracrew import backoff
from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.server.metrics.process import loop_failures

log = get_logger("terracrew.server")


MAX_DELAY_SECONDS = 10.0
MAX_DELAY_WHILE_AWAY_SECONDS = 2.0
"""The longest delay after a transient error, such as a busy database."""


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
        except Unavailable as error:
            log.warning("loop waits", loop=name, reason=error.message)
            longest = MAX_DELAY_WHILE_AWAY_SECONDS
            if ready is not None:
                await ready()
        except Exception:
            log.exception("loop failed", loop=name)
            loop_failures.add(1, name)
        if until is not None and until.is_set():
            return
        if asyncio.get_running_loop().time() - started > 60:
            delay = wait
        delay = min(delay, longest)
        await asyncio.sleep(backoff.jittered(delay))
        delay = min(delay * 2, longest)


class Tasks:
    """Short tasks that nobody waits for: kept from the garbage collector, their errors logged, all ended at the stop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)

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
