"""How long git may take, and how much it may fetch: a server that hangs or sends without end must not keep a runner busy."""

import time

import msgspec

from terracrew.errors import Conflict, Unavailable
from terracrew.executor.control import Control


class FetchLimits(msgspec.Struct, frozen=True):
    total_seconds: float = 1800.0
    """How long fetching one source may take, with its submodules and the wait for other attempts."""
    silence_seconds: float = 120.0
    """How long git may run without any progress."""
    pack_bytes: int = 2 << 30
    """The largest file that git may write. What is fetched at once is one file."""
    memory_bytes: int = 4 << 30
    """The address space of one git process."""
    answer_bytes: int = 64 << 20
    """The most that a git command may print, for example the list of files or of tags."""


class Deadline:
    """Ends the work on one source: when its time is over, or when the attempt is asked to stop."""

    def __init__(self, limits: FetchLimits, control: Control | None) -> None:
        self.limits = limits
        self._control = control
        self._ends_at = time.monotonic() + limits.total_seconds

    def check(self, what: str) -> None:
        """Raise an error that ends the fetch, if it must end."""
        if self._control is not None and self._control.stop_mode(is_mutating=False) is not None:
            raise Conflict(f"{what} was stopped")
        if time.monotonic() > self._ends_at:
            raise Unavailable(f"{what} took longer than {self.limits.total_seconds:.0f} s, so it was ended")
