"""Whether the database answers: while it does not, who asks is told so at once, and who waits is let go when it is back."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from terracrew import backoff
from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database, T

RETRY_AFTER = 2.0
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
log = structlog.get_logger("terracrew.db")


class Presence:
    """One watcher decides; it has a connection of its own, so what it says does not depend on who happens to ask."""

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
        """Nobody waits any more: what is asked from now on fails by itself."""
        self._is_here.set()

    def check(self) -> None:
        if self.is_away:
            raise away()

    async def wait(self, timeout: float | None = None) -> bool:
        """True as soon as it answers; False when the time is up."""
        try:
            async with asyncio.timeout(timeout):
                await self._is_here.wait()
        except TimeoutError:
            return False
        return True


def away() -> Unavailable:
    """What everybody is told. The reason, with hosts and ports in it, is for the log."""
    return Unavailable("the database does not answer; try again in a moment", retry_after=RETRY_AFTER)


async def outlast(db: Database, work: Callable[[], Awaitable[T]]) -> T:
    """Do it, and again when the database is back if that was away. Only for what may be done twice."""
    for pause in _PAUSES:
        try:
            return await work()
        except Unavailable:
            # The first who notices does so a moment before it is known.
            await asyncio.sleep(backoff.jittered(pause))
            await db.ready()
    return await work()
