"""Ends a command that waits for longer than the person wants to."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from terracrew.errors import TerracrewError


class TimedOut(TerracrewError):
    code, exit_code = "timed_out", 13


@contextmanager
def deadline(seconds: float | None, what: str) -> Generator[None]:
    """Raise TimedOut in the block after this time. A signal handler raises it, because the block may be waiting in a read."""
    if not seconds:
        yield
        return

    def time_out(_signal: int, _frame: FrameType | None) -> None:
        raise TimedOut(f"{what} has not ended within {seconds:g} s; it continues")

    before = signal.signal(signal.SIGALRM, time_out)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
