"""Checks whether the disk has room for another job. A runner without room takes no jobs, since each would fail at once."""

import logging
import os

MIN_FREE_BYTES = 64 << 20
MIN_FREE_RATIO = 0.05
"""On a small disk, this ratio of its size has to be free instead of MIN_FREE_BYTES."""
log = logging.getLogger(__name__)


class Disk:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._had_room = True

    def has_room(self) -> bool:
        disk = os.statvfs(self._directory)
        free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        has_room = free >= min(MIN_FREE_BYTES, size * MIN_FREE_RATIO)
        if has_room != self._had_room:
            self._had_room = has_room
            if has_room:
                log.info("%s has room again: taking jobs", self._directory)
            else:
                log.warning("%s has %d MB left: taking no new jobs until more is free", self._directory, free >> 20)
        return has_room
