"""Tracks whether the database answers. While it does not, requests fail at once and waiting tasks sleep until it is back."""

import asyncio
from collections.abc import Awaitable, Callable

from terracrew import backoff
from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, T

RETRY_AFTER_SECONDS = 2.0
RETRY_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
log = get_logger("terracrew.db")


class Availability:
    """The notifier of PostgreSQL reports to it from a connection of its own, so the answer does not depend on other work."""

    def __init__(self, on_lost: Callable[[], None] = lambda: None) -> None:
        self._on_lost = on_lost
        self._is_here = asyncio.Event()
        self._is_here.set()

    @property
    def is_away(self) -> bool:
        return not self._is_here.is_set()

    def lost(self, reason: str) -> None:
        if not self.is_away:
            log.warning("the database is away", reason=reason)
            self._is_here.clear()
            self._on_lost()

    def found(self) -> None:
        if self.is_away:
            log.warning("the database is back")
            self._is_here.set()

    def close(self) -> None:
        """Release every waiting task. The closed connections refuse all requests from now on."""
        self._is_here.set()

    def check(self) -> None:
        if self.is_away:
            raise away()

    async def wait(self, timeout: float | None = None) -> bool:
        """Return True as soon as the database answers, or False when the time is up."""
        try:
            async with asyncio.timeout(timeout):
                await self._is_here.wait()
        except TimeoutError:
            return False
        return True


def away() -> Unavailable:
    """Make the error that callers see. The reason, which names hosts and ports, is only logged."""
    return Unavailable("the database does not answer; try again in a moment", retry_after=RETRY_AFTER_SECONDS)


async def retry_when_back(db: Database, work: Callable[[], Awaitable[T]]) -> T:
    """Run `work`; if the database is away, wait for its return and run it again. `work` must be safe to run twice."""
    for pause in RETRY_PAUSES_SECONDS:
        try:
            return await work()
        except Unavailable:
            # A failing caller may notice the outage a moment before `Availability` does.
            await asyncio.sleep(backoff.jittered(pause))
            await db.ready()
    return await work()
