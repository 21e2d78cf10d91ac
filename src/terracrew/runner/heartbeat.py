"""The heartbeat: says every few seconds that this instance lives, which attempts it has, and whether it is draining."""

import asyncio
import contextlib
from collections.abc import Callable

from terracrew import __version__
from terracrew.protocol.messages import Heartbeat
from terracrew.runner.crew import Crew
from terracrew.runner.stop import Stop


class Heart:
    def __init__(self, crew: Crew, stop: Stop, send: Callable[[Heartbeat], None], interval: float) -> None:
        self._crew, self._stop, self._send = crew, stop, send
        self.interval = interval
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something has changed that the server should not learn ten seconds later."""
        self._wake.set()

    def step(self) -> None:
        self._send(Heartbeat(__version__, self._stop.drain.is_set(), self._crew.refs))

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.interval):
                    await self._wake.wait()
            self._wake.clear()
            self.step()
