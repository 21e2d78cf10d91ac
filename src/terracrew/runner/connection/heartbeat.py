"""The heartbeat: says every few seconds that this instance lives, which attempts it has, and whether it is draining."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from terracrew import __version__
from terracrew.protocol.messages import Heartbeat
from terracrew.runner.attempts.supervisor import Crew

log = logging.getLogger(__name__)


class Drain(NamedTuple):
    """Whether this runner takes no new jobs, and whether that is because its disk is full."""

    is_draining: bool
    is_disk_full: bool


class Heart:
    def __init__(
        self, crew: Crew, drain: Callable[[], Drain], send: Callable[[Heartbeat], None], interval: float
    ) -> None:
        self._crew, self._drain, self._send = crew, drain, send
        self.interval = interval
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something has changed that the server should not learn ten seconds later."""
        self._wake.set()

    def step(self) -> None:
        attempts = self._crew.refs
        is_draining, is_disk_full = self._drain()
        self._send(Heartbeat(__version__, is_draining, attempts, is_disk_full))
        log.debug("a heartbeat that names %d attempts", len(attempts))

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.interval):
                    await self._wake.wait()
            self._wake.clear()
            self.step()
