"""Pages of files that a process unmaps because it may not need them any more."""

import subprocess
import sys
from pathlib import Path

import pytest

_PAGES = 512
_PROGRAM = f"""
import ctypes, hashlib, mmap, re, ssl, sys
from terracrew.runner.dispatch import library_pages

def mapped_kilobytes():
    return int(re.search(r"RssFile:\\s+(\\d+)", open("/proc/self/status").read())[1])

size = {_PAGES} * mmap.PAGESIZE
with open(sys.argv[1], "r+b") as file:
    unchanged = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    changed = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
assert unchanged[:] == changed[:]
changed[mmap.PAGESIZE] = 1
address = ctypes.addressof(ctypes.c_char.from_buffer(changed))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ) == 0
before = mapped_kilobytes()
library_pages.unmap_unused()
after = mapped_kilobytes()
assert changed[mmap.PAGESIZE] == 1
assert unchanged[mmap.PAGESIZE] == 0
ssl.create_default_context()
hashlib.sha256(unchanged[:]).hexdigest()
print(before - after)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(_PAGES << 12))
    return path


def test_pages_that_differ_from_their_file_stay_and_all_others_come_back_when_they_are_used(file: Path) -> None:
    """The linker changes pages of libraries and makes them read-only then, as the program does with its mapping."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > _PAGES * 4 // 2
