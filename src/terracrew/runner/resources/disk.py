"""Checks whether the disk has room for another job. A runner without room takes no jobs, since each would fail at once."""

import logging
import os
from pathlib import Path

from terracrew.system import trees

MIN_FREE_BYTES = 64 << 20
MIN_FREE_RATIO = 0.05
"""On a small disk, this ratio of its size has to be free instead of MIN_FREE_BYTES."""
log = logging.getLogger(__name__)


class Disk:
    def __init__(self, directory: str, spare: Path | None = None) -> None:
        """`spare` is a directory whose content is given up first."""
        self._directory, self._spare = directory, spare
        self._had_room = True

    def has_room(self) -> bool:
        free, has_room = self._measure()
        if not has_room and self._had_room and self._spare is not None and self._spare.is_dir():
            trees.remove_if_possible(self._spare)
            free, has_room = self._measure()
            log.warning("%s was emptied, because the disk is almost full", self._spare)
        if has_room != self._had_room:
            self._had_room = has_room
            if has_room:
                log.info("%s has room again: taking jobs", self._directory)
            else:
                log.warning("%s has %d MB left: taking no new jobs until more is free", self._directory, free >> 20)
        return has_room

    def _measure(self) -> tuple[int, bool]:
        """Return how many bytes are free, and whether that is enough."""
        disk = os.statvfs(self._directory)
        free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        return free, free >= min(MIN_FREE_BYTES, size * MIN_FREE_RATIO)
