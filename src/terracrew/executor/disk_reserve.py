"""Reserves disk space before it is needed, so that a full disk stops only the log."""

import ctypes
import errno
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_KEEP_SIZE_FLAG = 1
_PUNCH_HOLE_FLAG = 2
_STEP_BYTES = 1 << 20
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_UNSUPPORTED_ERRORS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class FileReserve:
    """Reserved blocks of one file beyond its end, so that a write there cannot fail, even if the disk becomes full."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size = descriptor, size
        self._end = 0
        self._can_reserve = True

    def keep(self, position: int) -> bool:
        """Reserve the space after this position. Returns whether it is reserved."""
        if self._end - position >= self._size:
            return True
        return any(self._take(position, position + self._size + extra) for extra in (_STEP_BYTES, 0))

    def forget(self) -> None:
        """Forget the reservation, because the file was truncated and the reserved blocks are gone."""
        self._end = 0

    def _take(self, position: int, end: int) -> bool:
        # Reserve only the new part: if tmpfs cannot reserve a whole range, it releases all of it.
        start = max(position, self._end)
        if self._can_reserve and _libc.fallocate(self._descriptor, _KEEP_SIZE_FLAG, start, end - start) == 0:
            self._end = end
            return True
        if self._can_reserve and (number := ctypes.get_errno()) not in _UNSUPPORTED_ERRORS:
            if number in (*DISK_FULL_ERRORS, errno.EINTR):
                return False
            raise OSError(number, os.strerror(number))
        self._can_reserve = False  # the file system cannot reserve space, so only the free space is checked
        disk = os.fstatvfs(self._descriptor)
        return disk.f_bavail * disk.f_frsize >= end - position


def give_back(descriptor: int, size: int) -> None:
    """Free the disk space of the beginning of a file. The rest of the file stays at its offset."""
    _libc.fallocate(
        descriptor, _KEEP_SIZE_FLAG | _PUNCH_HOLE_FLAG, 0, size
    )  # if the file system cannot do that, no space is freed
