"""Where Python keeps the objects of a runner process."""

import subprocess
import sys

_LARGEST_MAPPING = """
import sys
def largest():
    sizes = [0]
    for line in open("/proc/self/maps"):
        addresses, _, _, _, inode, *name = line.split()
        first, end = (int(each, 16) for each in addresses.split("-"))
        sizes += [end - first] if inode == "0" and not name else []
    return max(sizes) >> 20
def resident():
    return next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmRSS:"))
"""


def _run(code: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", _LARGEST_MAPPING + code], capture_output=True, text=True, check=True, timeout=60
    )
    return [int(each) for each in done.stdout.split()]


def test_the_objects_of_a_runner_lie_in_one_piece_of_memory() -> None:
    assert _run("from terracrew.runner import heap; heap.gather(); print(largest())")[0] >= 11


def test_memory_that_was_gathered_is_used_for_what_is_made_later() -> None:
    code = """
from terracrew.runner import heap
heap.gather()
before = resident()
made = [bytes(100) for _ in range(60_000)]
print(resident() - before)
"""
    assert _run(code)[0] <= 2  # instead of 9 MB; the list itself has less than one
