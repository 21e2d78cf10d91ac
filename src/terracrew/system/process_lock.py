"""A file that one process at a time may lock, with the id of that process in it for people and for error messages.

The kernel releases the lock when the process ends, however it ends, so a lock file that was left behind means nothing.
"""

import fcntl
import os
from pathlib import Path

_MAX_HOLDER_BYTES = 80


class AlreadyLockedError(Exception):
    def __init__(self, holder: str, doing: str = "") -> None:
        super().__init__(f"process {holder} holds the lock")
        self.holder = holder
        """The id of the process that holds the lock, or "unknown"."""
        self.doing = doing
        """What that process has said that it is doing (`say`)."""


def acquire(path: Path) -> int:
    """Lock the file and write our process id into it. The lock is held until the returned descriptor is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        say(descriptor, "")
    except BlockingIOError:
        holder, _, doing = os.pread(descriptor, _MAX_HOLDER_BYTES, 0).decode(errors="replace").strip().partition(" ")
        os.close(descriptor)
        raise AlreadyLockedError(holder or "unknown", doing) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def say(descriptor: int, doing: str) -> None:
    """Write our process id, and what this process is doing, into the file that it has locked."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {doing}".strip().encode() + b"\n", 0)
