"""A reserve of free disk space, so that statuses and decisions can still be stored when logs and uploads have filled the disk.

At the reserve, the server refuses what is large for now: deliveries of executors, uploads and archives. Nothing is lost, because
executors keep what they could not deliver, and try again.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from terracrew.errors import Unavailable
from terracrew.logging import get_logger

MEGABYTE_BYTES = 1_000_000
RETRY_AFTER_SECONDS = 30.0
_MAX_RATIO = 0.05
"""The largest part of a disk that is reserved, so that a small disk can be used."""
log = get_logger("terracrew.server")


class DiskSpace(NamedTuple):
    free_bytes: int
    total_bytes: int


def measure(folder: Path) -> DiskSpace:
    found = os.statvfs(folder)
    return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class DiskReserve:
    def __init__(self, folders: Sequence[Path], megabytes: int, measure: Callable[[Path], DiskSpace] = measure) -> None:
        self._folders, self._bytes = tuple(folders), megabytes * MEGABYTE_BYTES
        self.measure = measure
        self._was_reached = False

    @property
    def problem(self) -> str:
        """What to do if the reserve is reached; an empty text if it is not."""
        found = next((text for folder in self._folders if (text := self._problem_of(folder))), "")
        if bool(found) != self._was_reached:
            self._was_reached = bool(found)
            log.warning(found or "there is enough free disk space again: deliveries and uploads are accepted")
        return found

    def require(self) -> None:
        """Refuse something large for now if the reserve is reached."""
        if problem := self.problem:
            raise Unavailable(problem, retry_after=RETRY_AFTER_SECONDS)

    def _problem_of(self, folder: Path) -> str:
        if not self._bytes:
            return ""
        try:
            free, total = self.measure(folder)
        except OSError:
            return ""  # what is wrong with it is told by what uses it
        reserve = min(self._bytes, int(total * _MAX_RATIO))
        if free >= reserve:
            return ""
        return (
            f"the server's disk has {free // MEGABYTE_BYTES:,} MB free, and {reserve // MEGABYTE_BYTES:,} MB are reserved "
            "(disk_reserve_megabytes): deliveries and uploads wait until an administrator of the server frees some. "
            "`terracrew server usage` shows what is stored"
        )
