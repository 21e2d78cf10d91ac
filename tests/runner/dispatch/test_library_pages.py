"""Pages of files that a process unmaps because it may not need them any more."""

import subprocess
import sys
from pathlib import Path

import pytest

from terracrew.runner.dispatch import library_pages

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


def mapping(begin: int, description: str, **kilobytes: int) -> str:
    """Return a mapping as the kernel describes it in `smaps`."""
    names = ["Rss", "Anonymous", "AnonHugePages", "Shared_Hugetlb", "Private_Hugetlb", "Swap", "SwapPss"]
    lines = [f"{name + ':':<16}{kilobytes.get(name, 0):>8} kB" for name in names]
    head = f"{begin:x}-{begin + 4096:x} {description}"
    return "\n".join([head, *lines, "THPeligible:           0", "VmFlags: rd mr mw me"]) + "\n"


def test_only_mappings_of_files_without_any_page_that_differs_are_unmapped() -> None:
    library, memory = (
        "00000000 fe:00 21532    /usr/lib/libc.so.6",
        "00000000 00:11 25037079    /anon_hugepage (deleted)",
    )
    mappings = [
        mapping(0x1000, f"r--p {library}", Rss=4),
        mapping(0x3000, f"r-xp {library}", Rss=4),
        mapping(0x5000, f"rw-p {library}", Rss=4),
        mapping(0x7000, f"r--s {library}", Rss=4),
        mapping(0x9000, f"r--p {library}", Rss=4, Anonymous=4),
        mapping(0xB000, f"r--p {library}", Swap=4),
        mapping(0xD000, f"r--p {memory}", Private_Hugetlb=2048),
        mapping(0xF000, f"r--p {memory}", Shared_Hugetlb=2048),
        mapping(0x11000, "r--p 00000000 00:00 0    [vvar]", Rss=4),
        mapping(0x13000, f"r--p {library}", Rss=4),
    ]
    found = library_pages.unchanged("".join(mappings).encode())
    assert found == [(begin, begin + 4096) for begin in (0x1000, 0x3000, 0x13000)]
