"""A real ext4 on a loop device. What its image holds at a moment is what the disk would hold after a power cut.

`noauto_da_alloc` turns off the favour that ext4 does to programs that rename without a sync, and a long commit interval
leaves it to the syncs alone what reaches the disk.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.machine.needs import need

IMAGE_BYTES = 192 << 20
OPTIONS = "loop,noauto_da_alloc,commit=300"
_MAX_COPIES = 50
_CHUNK_BYTES = 1 << 20


class LoopDisk:
    is_model = False

    def __init__(self, images: Path, mount_point: Path) -> None:
        self.mount_point, self._images = mount_point, images
        self._image = images / "image"
        self._count = 0
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        # A PATH of somebody who is not root often leaves out the directories of the system's own commands.
        make_ext4 = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        need(None if make_ext4 else "no mkfs.ext4 here")
        options = ["-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", "-J", "size=8"]
        subprocess.run([str(make_ext4), "-q", *options, self._image], check=True)
        mount_point.mkdir(exist_ok=True)
        self._mount(self._image)

    def synced(self, path: str) -> None:
        pass  # the shim has synced it

    def snapshot(self) -> Path:
        """Copy the image at a moment when nothing was written to it: a copy of two moments could never have been."""
        self._count += 1
        target = self._images / f"cut-{self._count}"
        for _ in range(_MAX_COPIES):
            before = self._image.stat().st_mtime_ns
            _copy(self._image, target)
            if self._image.stat().st_mtime_ns == before:
                return target
        raise AssertionError("the image is written all the time")

    def restore(self, image: Path) -> None:
        """Mount this copy at the same place; the file system replays its journal."""
        self.unmount()
        self._mount(image)

    def unmount(self) -> None:
        for _ in range(50):
            done = subprocess.run(["umount", self.mount_point], capture_output=True)
            if done.returncode == 0 or b"not mounted" in done.stderr:
                return
            time.sleep(0.1)
        raise AssertionError(done.stderr.decode())

    def _mount(self, image: Path) -> None:
        done = subprocess.run(["mount", "-t", "ext4", "-o", OPTIONS, image, self.mount_point], capture_output=True)
        if done.returncode:
            reason = done.stderr.decode().splitlines()[0].rpartition(": ")[2]
            pytest.skip(f"no image can be mounted here: {reason}")


def _copy(source: Path, target: Path) -> None:
    """Copy only what is not a hole."""
    with source.open("rb", buffering=0) as reading, target.open("wb", buffering=0) as writing:
        writing.truncate(IMAGE_BYTES)
        position = 0
        while True:
            try:
                start = os.lseek(reading.fileno(), position, os.SEEK_DATA)
            except OSError:  # nothing but a hole is left
                return
            position = os.lseek(reading.fileno(), start, os.SEEK_HOLE)
            for at in range(start, position, _CHUNK_BYTES):
                os.pwrite(writing.fileno(), os.pread(reading.fileno(), min(_CHUNK_BYTES, position - at), at), at)
