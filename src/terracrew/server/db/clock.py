"""Time that follows a wall clock slowly and never jumps, so that no lease or approval expires by a jump (ADR 0014)."""

import time
from collections.abc import Callable

from terracrew.logging import get_logger

SLEW_RATE = 0.05
"""How much faster or slower than a steady clock this one may run to follow the wall clock: an hour in twenty hours."""
NOTEWORTHY_SECONDS = 5.0
"""A difference from the wall clock that is logged, and stored for the next start."""
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
log = get_logger("terracrew.db")


def steady() -> float:
    """Return the seconds of a clock that is never set, and that also counts the time in which the machine is suspended."""
    return time.clock_gettime(_BOOTTIME)


def remaining(correction: float, stored_at: float, wall: float) -> float:
    """Return what is left of a correction: it becomes smaller all the time, at the same rate for every process."""
    left = max(0.0, abs(correction) - SLEW_RATE * max(0.0, wall - stored_at))
    return left if correction > 0 else -left


class SteadyClock:
    """Starts at the wall clock's time, then advances by a steady clock and drifts towards the wall clock."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = steady) -> None:
        self._wall, self._steady = wall, steady
        self._read_at = steady()
        self._offset = wall() - self._read_at
        self._stored = 0.0
        self._is_noted = False

    def __call__(self) -> float:
        at = self._steady()
        most = SLEW_RATE * (at - self._read_at)
        behind = self._wall() - at - self._offset
        self._offset += min(max(behind, -most), most)
        self._read_at = at
        if (abs(behind) > NOTEWORTHY_SECONDS) != self._is_noted:
            self._note(behind)
        return at + self._offset

    @property
    def correction(self) -> float:
        """How far this clock is ahead of the wall clock."""
        return self() - self._wall()

    @property
    def is_to_be_stored(self) -> bool:
        """Whether the next start would have to know a correction that is not the stored one."""
        correction = self.correction
        if abs(correction) < NOTEWORTHY_SECONDS:
            correction = 0.0
        return abs(correction - self._stored) > NOTEWORTHY_SECONDS / 2

    def store(self) -> tuple[float, float]:
        """Return the correction to store, and the wall clock's time that belongs to it."""
        correction = self.correction
        self._stored = correction if abs(correction) >= NOTEWORTHY_SECONDS else 0.0
        return self._stored, self._wall()

    def resume(self, correction: float, stored_at: float, newest: float) -> None:
        """Continue at the time of an earlier process, and never before the newest time that is stored.

        The stored correction has become smaller since, as it does while a process runs.
        """
        wall = self._wall()
        start = max(wall + remaining(correction, stored_at, wall), newest)
        self._read_at = self._steady()
        self._offset = start - self._read_at
        self._stored = correction
        self()

    def _note(self, behind: float) -> None:
        self._is_noted = not self._is_noted
        if self._is_noted:
            log.warning(
                "the wall clock differs from the time in use, which follows it slowly",
                seconds=round(behind, 1),
                hours=round(abs(behind) / SLEW_RATE / 3600, 1),
            )
        else:
            log.info("the time in use is the wall clock's again")
