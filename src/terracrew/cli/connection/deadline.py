"""Limits how long a command waits, and lets it wait through a restart of the server."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from terracrew.cli.printing import output
from terracrew.errors import TerracrewError

if TYPE_CHECKING:
    from terracrew.client.http import Api


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


MAX_OUTAGE_SECONDS = 300.0


def wait_out(api: "Api") -> None:
    """Let requests that can be repeated wait while the server cannot be reached, and print what they wait for.

    Call this after the request that starts what is waited for, so that a command that never reaches a server ends at once.
    """
    printed: set[str] = set()

    def note(error: TerracrewError) -> None:
        if error.message not in printed:
            printed.add(error.message)
            output.note(f"waiting: {error.message}")

    api.max_outage_seconds, api.on_wait = MAX_OUTAGE_SECONDS, note
