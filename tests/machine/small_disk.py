"""A disk so small that a test can fill it."""

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Generator[Path]:
    """Mount one there; the test is skipped where that is not allowed."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        reason = done.stderr.decode().splitlines()[0].rpartition(": ")[2]
        pytest.skip(f"no disk can be mounted here: {reason}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path, but: int = 0) -> None:
    """Leave nothing free, or so many bytes."""
    with file.open("wb", buffering=0) as out:
        disk = os.statvfs(file.parent)
        os.posix_fallocate(out.fileno(), 0, max(disk.f_frsize, disk.f_bavail * disk.f_frsize - but))
        with contextlib.suppress(OSError):
            while not but:
                os.lseek(out.fileno(), 0, os.SEEK_END)
                out.write(bytes(disk.f_frsize))
    free = os.statvfs(file.parent)
    assert free.f_bavail * free.f_frsize <= but
