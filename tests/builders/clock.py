"""Clocks that a test moves. They stand in for the clock of the database or of the registry of connections."""

import time


class ManualClock:
    """Stands still unless it is read or moved."""

    def __init__(self, start_seconds: float, tick_seconds: float = 0.0) -> None:
        self.now = start_seconds
        self._tick_seconds = tick_seconds

    def __call__(self) -> float:
        """Tell the time. With a tick, every reading is a little later than the one before."""
        self.now += self._tick_seconds
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class ShiftedClock:
    """Runs as the clock of this machine does, ahead of it by as much as a test has let pass."""

    def __init__(self) -> None:
        self._shift_seconds = 0.0

    def __call__(self) -> float:
        return time.time() + self._shift_seconds

    def advance(self, seconds: float) -> None:
        self._shift_seconds += seconds
