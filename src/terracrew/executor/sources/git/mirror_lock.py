"""The lock of a mirror: one attempt at a time changes it, and nobody changes it while others read it."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Literal

_POLL_SECONDS = 0.05
_FLAGS = {"change": fcntl.LOCK_EX, "read": fcntl.LOCK_SH}

Purpose = Literal["change", "read"]


class MirrorLock:
    """A lock that was taken. It ends with the processes that have its descriptor, however they end.

    Git gets the descriptor, too: if an executor is killed while its git still writes, the next attempt waits for that git.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor, self._path = descriptor, path

    def remove(self) -> None:
        """Remove the file of the lock with the mirror that it protects. Others notice that it is gone, and make a new one."""
        self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def hold(path: Path, purpose: Purpose, waiting: Callable[[float], None]) -> Generator[MirrorLock]:
    """Hold the lock in this file. `waiting` is called with the seconds that have passed, and ends the wait by an exception."""
    began = time.monotonic()
    while (descriptor := _take(path, purpose)) is None:
        waiting(time.monotonic() - began)
        time.sleep(_POLL_SECONDS)
    try:
        yield MirrorLock(descriptor, path)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def try_to_change(path: Path) -> Generator[MirrorLock | None]:
    """Hold the lock if nobody has it at this moment; yields None otherwise."""
    descriptor = _take(path, "change")
    try:
        yield None if descriptor is None else MirrorLock(descriptor, path)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _take(path: Path, purpose: Purpose) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, _FLAGS[purpose] | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)  # somebody else has the lock, or removed its file in the meantime
    return None
