"""The memory that a forked process still shares with its parent. The kernel copies a page of it when one of them writes to it, which
takes microseconds each time. A process that has nothing to do yet can have its memory copied before it needs it."""

import ctypes
import re

_POPULATE_WRITE = 23
"""`MADV_POPULATE_WRITE` of madvise(2), since Linux 5.14: copies each page that is still shared."""
_COLLAPSE = 25
"""`MADV_COLLAPSE` of madvise(2), since Linux 6.1: copies small pages into a large one, which takes a third of the time."""
_LARGE_PAGE_BYTES = 2 << 20
_WRITABLE = re.compile(rb"^(\w+)-(\w+) rw-p .*$", re.M)
_libc = ctypes.CDLL(None)


def copy() -> None:
    """Give this process its own copy of its writable memory. An older kernel refuses, and copies each page when it is needed."""
    with open("/proc/self/maps", "rb") as file:
        mappings = file.read()
    for found in _WRITABLE.finditer(mappings):
        if not found[0].endswith(b"[stack]"):  # it grows, and little of it is used
            begin, end = int(found[1], 16), int(found[2], 16)
            # Only whole large pages can be collapsed. It is refused if there is none free, or if the kernel was built without them.
            first = -(-begin // _LARGE_PAGE_BYTES) * _LARGE_PAGE_BYTES
            last = end // _LARGE_PAGE_BYTES * _LARGE_PAGE_BYTES
            if first < last:
                _advise(first, last, _COLLAPSE)
            _advise(begin, end, _POPULATE_WRITE)


def _advise(begin: int, end: int, advice: int) -> None:
    _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice)
