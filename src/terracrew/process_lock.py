"""A file that one process at a time may lock, with the id of that process in it for people and for error messages.

The kernel releases the lock when the process ends, however it ends, so a lock file that was left behind means nothing.
"""

import fcntl
import os
from pathlib import Path

_MAX_PID_BYTES = 20


class AlreadyLockedError(Exception):
    def __init__(self, holder: str) -> None:
        super().__init__(f"process {holder} holds the lock")
        self.holder = holder
        """The id of the process that holds the lock, or "unknown"."""


def acquire(path: Path) -> int:
    """Lock the file and write our process id into it. The lock is held until the returned descriptor is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, _MAX_PID_BYTES, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise AlreadyLockedError(holder) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
