"""Waits for the start of an attempt, which the runner puts on the volume while this container is already loading its program."""

import signal
import time

from terracrew.executor.container import signals
from terracrew.executor.container.paths import COMPLETE, START

WAIT_SECONDS = 240.0
"""Longer than a job takes to come to a container that was started ahead of it, and then longer than a daemon that is being restarted
needs to answer again. A runner that was killed never sends anything."""
_LOOK_SECONDS = 0.004
_ENDS = (signal.SIGTERM, signal.SIGINT)


def has_come() -> bool:
    return COMPLETE.exists()


def wait(seconds: float = WAIT_SECONDS) -> bytes | None:
    """Return the start, and remove it; None if it did not come, or if the container is to end before."""
    deadline = time.monotonic() + seconds
    while not has_come():
        got = signal.sigtimedwait(signals.WAITED_FOR, _LOOK_SECONDS)
        if got is not None and got.si_signo in _ENDS:
            print("it was told to end before its job arrived")
            return None
        if time.monotonic() > deadline:
            print(f"its job did not arrive within {seconds:.0f} seconds")
            return None
    # The start has secrets that are kept in memory only.
    content = START.read_bytes()
    START.unlink()
    COMPLETE.unlink()
    return content
