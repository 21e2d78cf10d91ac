"""Keeps a background loop of the executor alive: a fault in one must not end the engine's run."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

_PAUSE_SECONDS = 1.0
_logger = logging.getLogger("terracrew.executor")


async def supervise(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    """Run the loop until it returns, and start it again whenever it fails."""
    while True:
        try:
            return await loop()
        except Exception:
            _logger.exception("%s failed and is started again", name)
            await asyncio.sleep(_PAUSE_SECONDS)
