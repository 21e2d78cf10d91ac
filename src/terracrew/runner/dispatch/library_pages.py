"""The pages of programs and libraries that a process has mapped. The kernel maps many around each one that is used."""

import contextlib
import ctypes
import re

_DONTNEED = 4
"""`MADV_DONTNEED` of madvise(2)."""
_UNCHANGED = re.compile(
    rb"^(\w+)-(\w+) r-.p \w+ \S+ [1-9].*\n(?:(?!Anonymous:).*\n)*Anonymous: +0 kB\n(?:(?!Shared_Hugetlb:).*\n)*"
    rb"Shared_Hugetlb: +0 kB\nPrivate_Hugetlb: +0 kB\nSwap: +0 kB$",
    re.M,
)
"""A mapping of a file that is not writable and has no page that differs from the file, not even one that was swapped out. The linker
changes some pages of a library when it loads it, and makes them read-only afterwards: those have to stay. Huge pages may differ, too:
the kernel does not count them as anonymous, and names a file for memory that has none."""
_libc = ctypes.CDLL(None)


def unmap_unused() -> None:
    """Unmap the pages of all libraries. Those that this process still uses are mapped again when it uses them.

    A process that has imported modules for others, and will not use them itself, maps megabytes of them otherwise. Only a process
    with one thread may call this: another one could load a library in the meantime.
    """
    with contextlib.suppress(OSError):  # a system without this file does not say which pages differ
        with open("/proc/self/smaps", "rb") as file:
            mappings = file.read()
        for begin, end in unchanged(mappings):
            _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)


def unchanged(mappings: bytes) -> list[tuple[int, int]]:
    """Return the mappings that can be unmapped without a loss, each as its first address and the one after its last."""
    return [(int(found[1], 16), int(found[2], 16)) for found in _UNCHANGED.finditer(mappings)]
