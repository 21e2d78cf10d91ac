"""A source that was uploaded to the server as an archive (tar.gz)."""

import asyncio
import contextlib
import hashlib
import io
import os
from functools import partial
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import ArchiveSource
from terracrew.source_rules import archive
from terracrew.system import trees

MAX_BYTES = 1 << 30
MAX_UNUSED_SECONDS = 30 * 86400.0


class ArchiveFetcher:
    async def fetch(self, source: ArchiveSource, workspace: Path, context: FetchContext) -> SourceResolved:
        data = await content(source, context)
        digest = hashlib.sha256(data).hexdigest()
        unpack = partial(archive.extract, io.BytesIO(data), workspace)
        await asyncio.to_thread(context.confinement.within, unpack, workspace)
        return SourceResolved(f"sha256:{digest}", f"archive {digest[:12]}, {len(data):,} bytes")


async def content(source: ArchiveSource, context: FetchContext) -> bytes:
    """Return what is stored on the server for a source: it came with the job, is in the cache, or is requested."""
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
        return trees.prune_cache(self._folder, max_bytes=MAX_BYTES, max_age_seconds=MAX_UNUSED_SECONDS, kept=kept)
