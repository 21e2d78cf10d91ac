"""Where Python keeps the objects of a runner process."""

import subprocess
import sys

_FUNCTIONS = """
def most_large_pages():
    counts = [0]
    for line in open("/proc/self/maps"):
        addresses, _, _, _, inode, *name = line.split()
        first, end = (int(each, 16) for each in addresses.split("-"))
        counts += [(end >> 21) - (-(-first >> 21))] if inode == "0" and not name else []
    return max(counts)
def resident():
    return next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmRSS:"))
from terracrew.runner import heap
"""


def _run(code: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _FUNCTIONS + code], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


def test_the_objects_of_a_runner_lie_in_whole_large_pages() -> None:
    assert _run("heap.gather(); print(most_large_pages())") >= 6


def test_memory_that_was_gathered_is_used_for_what_is_made_later() -> None:
    code = """
heap.gather()
before = resident()
made = [bytes(100) for _ in range(60_000)]
print(resident() - before)
"""
    assert _run(code) <= 2  # instead of 9 MB; the list itself has less than one
