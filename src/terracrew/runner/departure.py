"""When and why this runner goes away, and when its attempts have to be interrupted so that everything is delivered before that.

A signal ends the runner's process, and a notice announces the end of its machine. In both cases the runner takes no new jobs. If
the time of the end is known, attempts that would not survive it are interrupted before it, as on a shutdown of their host: the
engine saves its state, everything is delivered, and the server decides as for every lost attempt (ADR 0009, 0015).
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from terracrew.protocol.start import INTERRUPT_SECONDS
from terracrew.wording.durations import duration

Ending = Literal["runner", "machine"]
"""What ends: the runner's process with its container, or the whole machine."""

DELIVERY_SECONDS = 10.0
"""How long an executor and its runner have to deliver everything after the engine has ended."""
_DELIVERY_RATIO = 1 / 6
"""The largest share of `runner.stop_seconds` that is kept for that."""
_FREE_RATIO = 0.1
"""The smallest share of the rest in which a job may end by itself before it is interrupted."""


class Departure(msgspec.Struct, frozen=True):
    """The announced end of this runner."""

    reason: str
    """What announced it, in a few words: `spot notice`."""
    noticed_at: float
    ends_at: float | None
    """When it ends at the latest; None if that is not known, so that attempts may take as long as they need."""
    ending: Ending = "machine"


class Departures:
    """The announced ends of this runner: of a signal, and of notices about its machine. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._by_source: dict[str, Departure] = {}
        self.changed = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None

    @property
    def current(self) -> Departure | None:
        """The one that ends first. One whose end is not known comes last."""
        far = float("inf")
        return min(
            self._by_source.values(),
            key=lambda each: (far if each.ends_at is None else each.ends_at, each.noticed_at),
            default=None,
        )

    def announce(self, source: str, departure: Departure | None) -> None:
        """Replace what this source has announced; None withdraws it."""
        if self._by_source.get(source) == departure:
            return
        if departure is None:
            del self._by_source[source]
        else:
            self._by_source[source] = departure
        self.changed.set()
        self.on_change()


def interrupt_seconds(stop_seconds: float | None) -> tuple[float, float]:
    """Return how long an engine may run after it was interrupted, and after it was interrupted again, so that it fits into the
    time that the runner has after a signal."""
    first, second = INTERRUPT_SECONDS
    if stop_seconds is None:
        return first, second
    room = (stop_seconds - delivery_seconds(stop_seconds)) * (1 - _FREE_RATIO)
    share = min(1.0, room / (first + second))
    return first * share, second * share


def delivery_seconds(stop_seconds: float | None) -> float:
    return DELIVERY_SECONDS if stop_seconds is None else min(DELIVERY_SECONDS, stop_seconds * _DELIVERY_RATIO)


def interrupt_at(departure: Departure, stop_seconds: float | None) -> float | None:
    """Return when attempts have to be interrupted; None if they need not be."""
    if departure.ends_at is None:
        return None
    return departure.ends_at - delivery_seconds(stop_seconds) - sum(interrupt_seconds(stop_seconds))


def cause(departure: Departure) -> str:
    """Return why an attempt was interrupted, as people read it."""
    what = "its machine was taken away" if departure.ending == "machine" else "its runner had to end"
    text = f"{what}: {departure.reason} at {datetime.fromtimestamp(departure.noticed_at, UTC):%H:%M} UTC"
    if departure.ends_at is None:
        return text
    return f"{text}, {duration(departure.ends_at - departure.noticed_at)} before"


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
