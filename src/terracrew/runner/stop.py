"""Stopping a runner has two speeds: drain until the attempts have ended, or exit at once and let the executors continue.

With `runner.stop_seconds` the executors end with the runner, as in a container. Then attempts are interrupted before that time has
passed, and a second signal interrupts them at once.
"""

import asyncio
import time

from terracrew.runner.departure import Departure, Departures

_SIGNAL = "signal"
_LIFETIME = "lifetime"


class Stop:
    def __init__(self, stop_seconds: float | None = None) -> None:
        self._stop_seconds = stop_seconds
        self.drain = asyncio.Event()
        """The runner claims no more jobs and ends when its attempts have ended."""
        self.exit = asyncio.Event()
        """The runner ends at once. Its executors continue, and the next runner process finds them."""
        self._is_signaled = False
        self.departures = Departures()
        self.is_switching = False
        """Whether the runner ends so that the version is started that it has chosen."""
        self.is_hurried = False
        """Whether attempts that end with the runner are interrupted now."""

    def request(self, name: str = "a signal") -> None:
        """Handle a signal: the first one drains, the last one exits."""
        if not self._is_signaled:
            self._is_signaled = True
            now = time.time()
            ends_at = None if self._stop_seconds is None else now + self._stop_seconds
            self.departures.announce(_SIGNAL, Departure(name, now, ends_at, "runner"))
        elif self._stop_seconds is not None and not self.is_hurried:
            self.is_hurried = True
            self.departures.changed.set()
        else:
            self.exit.set()
        self.drain.set()

    def end_when_idle(self, reason: str = "") -> None:
        """Take no further jobs and end after the last one, however long it takes. A signal later on has its usual meaning."""
        if reason:
            self.departures.announce(_LIFETIME, Departure(reason, time.time(), None, "runner"))
        self.drain.set()

    def switch(self) -> None:
        """End at once, so that another version of this runner is started. Its executors continue."""
        self.is_switching = True
        self.exit_now()

    def exit_now(self) -> None:
        self.drain.set()
        self.exit.set()
