"""Waits for the start of an attempt, which the runner puts on the volume while this container is already loading its program."""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Generator

from terracrew.executor.container import reaper
from terracrew.executor.container.paths import COMPLETE, COMPLETE_MTIME_SECONDS, START

WAIT_SECONDS = 120.0
"""Longer than a daemon that is being restarted needs to answer again. A runner that was killed never sends anything."""
SPARE_SECONDS = 240.0
"""For a container that was started ahead of its job: a job may take as long to come as its start may take to arrive then."""
SPARE = "spare"
"""What such a container is told to do (`commands`)."""
_LOOK_SECONDS, _BLIND_LOOK_SECONDS = 1.0, 0.01
"""How often to look if the kernel says what changes in a directory, and if it does not."""
_UNTIMED_SECONDS = 2.0
"""How long to wait for the time of the last file, for a daemon that sets none."""
_ENDS = (signal.SIGTERM, signal.SIGINT)


_NOTICED = fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_ATTRIB | fcntl.DN_MODIFY | fcntl.DN_MULTISHOT


def has_come() -> bool:
    """Return whether everything was uploaded.

    The daemon does several things with each file, and sets its time last. If the file is gone by then, the upload fails.
    """
    try:
        found = COMPLETE.stat()
    except FileNotFoundError:
        return False
    return found.st_mtime == COMPLETE_MTIME_SECONDS or time.time() - found.st_ctime > _UNTIMED_SECONDS


def wait(seconds: float) -> bytes | None:
    """Return the start, and remove it; None if it did not come, or if the container is to end before."""
    deadline = time.monotonic() + seconds
    with _noticing_files() as pause_seconds:
        while not has_come():
            left = max(0.0, deadline - time.monotonic())
            got = signal.sigtimedwait(reaper.WAITED_FOR | {signal.SIGIO}, min(pause_seconds, left))
            if got is not None and got.si_signo in _ENDS:
                print("it was told to end before its job arrived")
                return None
            if left == 0:
                print(f"its job did not arrive within {seconds:.0f} seconds")
                return None
    content = START.read_bytes()
    _remove()
    return content


def remove_repeated() -> None:
    """Remove a start that was uploaded a second time, because the daemon's answer to the first upload was lost."""
    if has_come():  # a file that is removed before lets the upload fail
        _remove()


def _remove() -> None:
    """Remove the start. It has secrets that are kept in memory only."""
    START.unlink(missing_ok=True)
    COMPLETE.unlink()


@contextlib.contextmanager
def _noticing_files() -> Generator[float]:
    """Let this process get SIGIO for each change beside the start, and say how often to look in addition.

    This way one call waits for files and for other signals, and a container that waits costs nothing. It needs no library, unlike
    inotify. Some kernels, as that of gVisor, do not have it.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
    folder = os.open(COMPLETE.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.fcntl(folder, fcntl.F_NOTIFY, _NOTICED)
        except OSError:
            yield _BLIND_LOOK_SECONDS
        else:
            yield _LOOK_SECONDS
    finally:
        os.close(folder)  # no SIGIO comes after this, and one that has come must not end the process
        signal.sigtimedwait({signal.SIGIO}, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
