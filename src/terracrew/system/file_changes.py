"""Lets the kernel say that a file or a directory has changed (inotify).

It calls the C library itself: a package for it starts programs to find that library, and takes longer to import than an executor
in a container should wait before its engine starts.
"""

import contextlib
import ctypes
import os
from pathlib import Path
from typing import Self

IN_MODIFY, IN_CREATE = 0x2, 0x100
_READ_BYTES = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class FileChanges:
    def __init__(self, path: Path, kinds: int) -> None:
        """Raises OSError if the kernel has no more of them: it allows a user 128 by default."""
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            _checked(_libc.inotify_add_watch(self._descriptor, os.fsencode(path), ctypes.c_uint32(kinds)))
        except OSError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor that can be read when something has changed."""
        return self._descriptor

    def clear(self) -> None:
        """Forget the changes up to now."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._descriptor, _READ_BYTES)) > _READ_BYTES // 2:
                pass

    def close(self) -> None:
        os.close(self._descriptor)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
