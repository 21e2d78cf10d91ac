"""Turns for token exchanges: only a few run at a time, and no client waits for its turn until its request times out.

After an outage, a whole fleet asks for tokens at once. Without this limit, a client far back in the queue gives up and asks
again, while the server still works on the request that was given up. On a slow machine, that queue never gets shorter.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from terracrew import backoff
from terracrew.errors import Unavailable

MAX_EXCHANGES = 32
MAX_WAIT_SECONDS = 5.0
"""A third of a runner's timeout for one request, so that there is still time for the exchange itself."""
RETRY_AFTER_SECONDS = 4.0


class Turns:
    def __init__(self, at_once: int = MAX_EXCHANGES, max_wait_seconds: float = MAX_WAIT_SECONDS) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self.max_wait_seconds = max_wait_seconds

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Wait for a turn and keep it. A client that gets none in time is told to retry after a random delay."""
        try:
            async with asyncio.timeout(self.max_wait_seconds):
                await self._turns.acquire()
        except TimeoutError:
            later = backoff.jittered(RETRY_AFTER_SECONDS)
            raise Unavailable(
                "too many clients ask for a token at this moment; try again in a few seconds", retry_after=later
            ) from None
        try:
            yield
        finally:
            self._turns.release()
