"""The pages of programs and libraries that a process has mapped. The kernel maps many around each one that is used."""

import contextlib
import ctypes
import re

_DONTNEED = 4
"""`MADV_DONTNEED` of madvise(2)."""
_UNCHANGED = re.compile(
    rb"^(\w+)-(\w+) r-.p \w+ \S+ [1-9].*\n(?:(?!Anonymous:).*\n)*Anonymous: +0 kB\n(?:(?!Swap:).*\n)*Swap: +0 kB$",
    re.M,
)
"""A mapping of a file that is not writable and has no page that differs from the file, not even one that was swapped out. The linker
changes some pages of a library when it loads it, and makes them read-only afterwards: those have to stay."""
_libc = ctypes.CDLL(None)


def unmap_unused() -> None:
    """Unmap the pages of all libraries. Those that this process still uses are mapped again when it uses them.

    A process that has imported modules for others, and will not use them itself, maps megabytes of them otherwise. Only a process
    with one thread may call this: another one could load a library in the meantime.
    """
    with contextlib.suppress(OSError):  # a system without this file does not say which pages differ
        with open("/proc/self/smaps", "rb") as file:
            mappings = file.read()
        for found in _UNCHANGED.finditer(mappings):
            begin, end = int(found[1], 16), int(found[2], 16)
            _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)
