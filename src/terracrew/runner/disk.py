"""Whether the disk has room for another job, and the cache on it that attempts share: engines download again what an attempt had to."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from terracrew import plugins
from terracrew.executor.engines import contract
from terracrew.executor.engines.contract import DownloadContext
from terracrew.system import trees

log = logging.getLogger(__name__)

MAX_WAITING = 100
_RETRY_SECONDS = 3600.0


class Download(NamedTuple):
    engine: str
    item: str


class DownloadCache:
    def __init__(
        self,
        root: Path,
        environment: Mapping[str, str],
        engine_paths: Sequence[str],
        on_kept: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_kept` is called in a thread after each download that was kept."""
        self._on_kept = on_kept
        self._context = DownloadContext(root, dict(environment), engine_paths)
        self._queue: asyncio.Queue[Download] = asyncio.Queue(MAX_WAITING)
        self._tried_at: dict[Download, float] = {}

    def want(self, engine: str, items: Iterable[str]) -> None:
        """Queue these items for download. A failed download is tried again after an hour, if an attempt uses the item again."""
        for wanted in (Download(engine, item) for item in items):
            if time.monotonic() - self._tried_at.get(wanted, -_RETRY_SECONDS) >= _RETRY_SECONDS:
                with contextlib.suppress(asyncio.QueueFull):  # the next attempt that uses it asks again
                    self._queue.put_nowait(wanted)
                    self._tried_at[wanted] = time.monotonic()

    async def run(self) -> None:
        await self._replace_damaged()
        while True:
            wanted = await self._queue.get()
            try:
                if await contract.engine_named(wanted.engine).download(wanted.item, self._context):
                    self._tried_at.pop(wanted, None)
                    await asyncio.to_thread(self._on_kept)
                    log.info("%s is kept for other jobs", wanted.item)
            except (OSError, TimeoutError) as error:
                log.warning("%s cannot be kept for other jobs: %s", wanted.item, error)
            except Exception:  # it would end the whole runner, and the cache only saves downloads
                log.exception("%s cannot be kept for other jobs", wanted.item)

    async def _replace_damaged(self) -> None:
        """Remove what a disk has damaged since it was downloaded, and download it again. An empty cache needs no engine for that."""
        if not any(self._context.cache_directory.iterdir()):
            return
        checked: set[type] = set()  # OpenTofu and Terraform have one cache
        for name in plugins.names(plugins.ENGINES):
            try:
                engine = contract.engine_named(name)
                if type(engine) in checked:
                    continue
                checked.add(type(engine))
                damaged = await asyncio.to_thread(engine.drop_damaged, self._context)
            except Exception:  # as above
                log.exception("the downloads of %s cannot be checked", name)
                continue
            for item in damaged:
                log.warning("%s was damaged in the cache of downloads, and is downloaded again", item)
            self.want(name, damaged)


MIN_FREE_BYTES = 64 << 20
MIN_FREE_RATIO = 0.05
"""On a small disk, this ratio of its size has to be free instead of MIN_FREE_BYTES."""


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
