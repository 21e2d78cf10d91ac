"""Interrupts the attempts that would not survive the end of their runner or its machine, early enough to save and deliver everything."""

import asyncio
import contextlib
import logging
import time

from terracrew.runner import departure as departures
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.stop import Stop

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
"""How often the time is looked at while an end is announced. A timer would not notice that the clock was set."""


class Interruption:
    def __init__(self, stop: Stop, supervisor: AttemptSupervisor, stop_seconds: float | None) -> None:
        self._stop, self._supervisor, self._stop_seconds = stop, supervisor, stop_seconds

    async def run(self) -> None:
        announced = self._stop.departures
        while True:
            has_end = announced.current is not None and announced.current.ends_at is not None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS if has_end else None):
                    await announced.changed.wait()
            announced.changed.clear()
            self.step(time.time())

    def step(self, now: float) -> None:
        """Interrupt attempts if it is time for that. One that has no process yet is interrupted as soon as it has one."""
        departure = self._stop.departures.current
        if departure is None:
            return
        at = departures.interrupt_at(departure, self._stop_seconds)
        if self._stop.is_hurried or (at is not None and at <= now):
            self._supervisor.interrupt_all(departure)
