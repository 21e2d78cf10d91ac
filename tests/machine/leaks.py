"""Looks for texts where they must not be: in files, and in the memory of processes."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path


def files(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each file below a directory with its content."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with contextlib.suppress(FileNotFoundError):  # a part of the database that was removed meanwhile
                yield str(path), path.read_bytes()


def fleet_processes() -> list[int]:
    """Return the ids of the fleet processes of this machine."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and b"terracrew.fleet" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def held_in_memory(pid: int, *texts: str) -> list[str]:
    """Return which of the texts are anywhere in the memory of a process. Only root can read it."""
    wanted = {text: text.encode() for text in texts}
    found: set[str] = set()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            begin, end, rights = re.split("[- ]", line)[:3]
            with contextlib.suppress(OSError, ValueError, OverflowError):  # some special regions cannot be read
                memory.seek(int(begin, 16))
                content = memory.read(int(end, 16) - int(begin, 16)) if rights.startswith("r") else b""
                found |= {text for text, form in wanted.items() if form in content}
    return sorted(found)
