"""A source that was uploaded to the server as an archive (tar.gz)."""

import asyncio
import contextlib
import hashlib
import io
import os
import time
from functools import partial
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import ArchiveSource
from terracrew.source_rules import archive

MAX_BYTES = 1 << 30
MAX_UNUSED_SECONDS = 30 * 86400.0
MAX_DRAFT_SECONDS = 3600.0
"""A draft that is older was left by a process that died while it wrote it."""


class ArchiveFetcher:
    async def fetch(self, source: ArchiveSource, workspace: Path, context: FetchContext) -> SourceResolved:
        data = await _content(source, context)
        digest = hashlib.sha256(data).hexdigest()
        unpack = partial(archive.extract, io.BytesIO(data), workspace)
        await asyncio.to_thread(context.confinement.within, unpack, workspace)
        return SourceResolved(f"sha256:{digest}", f"archive {digest[:12]}, {len(data):,} bytes")


async def _content(source: ArchiveSource, context: FetchContext) -> bytes:
    if context.archive is not None:
        return _verified(context.archive, source)
    kept = ArchiveCache(context.cache / "archives")
    if (data := kept.get(source.sha256)) is not None:
        return data
    data = _verified((await context.transfer.get("archive")).body, source)
    kept.put(source.sha256, data)
    return data


def _verified(data: bytes, source: ArchiveSource) -> bytes:
    if source.sha256 and hashlib.sha256(data).hexdigest() != source.sha256:
        raise Invalid(f"the archive {source.archive_id} did not arrive whole: its SHA-256 is not {source.sha256}")
    return data


SOURCE = ArchiveFetcher()


class ArchiveCache:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, sha256: str) -> bytes | None:
        if not sha256.isalnum():
            return None
        file = self._folder / sha256
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest() != sha256:
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # mark it as used, so that others are removed first
        return data

    def put(self, sha256: str, data: bytes) -> None:
        """Store an archive, and evict others if the cache is full."""
        if not sha256.isalnum():
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f".{sha256}.{os.getpid()}"
        draft.write_bytes(data)
        draft.replace(self._folder / sha256)
        self.prune(sha256)

    def prune(self, kept: str = "") -> int:
        """Remove archives that have not been used for long, then the least recently used ones until the rest fits. Returns how many."""
        now, removed, total = time.time(), 0, 0
        found: list[tuple[float, int, Path]] = []
        for file in self._folder.iterdir():
            with contextlib.suppress(OSError):  # another attempt has removed it
                stat = file.stat()
                found.append((stat.st_mtime, stat.st_size, file))
        for used_at, size, file in sorted(found, reverse=True):
            if file.name.startswith("."):
                is_over = now - used_at > MAX_DRAFT_SECONDS
            else:
                total += size
                is_over = file.name != kept and (total > MAX_BYTES or now - used_at > MAX_UNUSED_SECONDS)
                total -= size if is_over else 0
            if is_over:
                with contextlib.suppress(OSError):
                    file.unlink()
                    removed += 1
        return removed
