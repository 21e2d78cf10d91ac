"""Memory that a forked process gets before it needs it."""

import mmap
import os
import platform
import re
import resource
from pathlib import Path

import pytest

from terracrew.runner.dispatch import own_pages

_PAGES = 2000
_LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
_KERNEL = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


@pytest.mark.skipif(_KERNEL < (5, 14), reason="this kernel copies memory only when it is written to")
def test_a_process_that_copied_its_memory_writes_to_it_without_asking_the_kernel() -> None:
    shared = bytearray(os.urandom(1)) * (_PAGES * mmap.PAGESIZE)
    assert _faults_of_a_fork(shared, is_copied=False) > _PAGES // 2
    assert _faults_of_a_fork(shared, is_copied=True) < _PAGES // 10


@pytest.mark.skipif(_KERNEL < (6, 1), reason="this kernel does not make large pages on demand")
@pytest.mark.skipif(not _LARGE_PAGES.exists(), reason="this kernel was built without large pages")
def test_memory_that_lies_together_is_copied_in_large_pages() -> None:
    shared = bytearray(os.urandom(1)) * (_PAGES * mmap.PAGESIZE)
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            own_pages.copy()
            os.write(write, Path("/proc/self/smaps_rollup").read_bytes())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as answer:
        sizes = dict(re.findall(r"^(\w+): +(\d+) kB$", answer.read(), re.M))
    os.waitpid(pid, 0)
    assert int(sizes["AnonHugePages"]) >= len(shared) // 2 >> 10


def test_nothing_changes_for_the_process_itself() -> None:
    before = bytes(range(256)) * mmap.PAGESIZE
    memory = bytearray(before)
    own_pages.copy()
    assert memory == before


def _faults_of_a_fork(shared: bytearray, *, is_copied: bool) -> int:
    """Return how often a forked process has to ask the kernel for a page when it writes to all of this memory."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            if is_copied:
                own_pages.copy()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for at in range(0, len(shared), mmap.PAGESIZE):
                shared[at] = 1
            os.write(write, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        found = int(answer.read())
    os.waitpid(pid, 0)
    return found
