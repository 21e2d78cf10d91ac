"""A source that was uploaded to the server as an archive (tar.gz)."""

import asyncio
import hashlib
import io
from functools import partial
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.executor.sources.archive_cache import ArchiveCache
from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import ArchiveSource
from terracrew.source_rules import archive


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
