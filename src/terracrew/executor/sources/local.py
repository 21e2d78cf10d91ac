"""A source that is a folder on the runner's machine, under one of the folders that the runner allows."""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from terracrew.errors import Forbidden, Invalid, NotFound, TooLarge
from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import LocalSource
from terracrew.source_rules import archive

_CHUNK_BYTES = 1 << 20


class LocalFetcher:
    async def fetch(self, source: LocalSource, workspace: Path, context: FetchContext) -> SourceResolved:
        folder = _allowed(source, context.roots)
        digest = await asyncio.to_thread(copy, folder, workspace)
        return SourceResolved(f"tree:{digest}", f"folder {folder}")


def _allowed(source: LocalSource, roots: Sequence[str]) -> Path:
    path = Path(source.path).expanduser()
    if not path.is_absolute():
        raise Invalid(f"the source {source.path!r} is not an absolute path")
    path = path.resolve()
    # This is checked before the path's existence, so that the error does not reveal which paths exist on this machine.
    if not any(path.is_relative_to(Path(root).expanduser().resolve()) for root in roots):
        allowed = ", ".join(roots) or "none"
        raise Forbidden(f"the source {source.path!r} is not under a folder that this runner allows ({allowed})")
    if not path.is_dir():
        raise NotFound(f"the source {source.path!r} is not a folder on this runner's machine")
    return path


def copy(source: Path, target: Path) -> str:
    """Copy a tree and return the hash of its names, contents, executable bits and links."""
    digest = hashlib.sha256()
    size = 0
    for entries, (path, entry) in enumerate(archive.walk(source, archive.Ignore(source))):
        if entry.is_symlink():
            link = os.readlink(entry.path)
            if link.startswith("/") or not Path(entry.path).resolve().is_relative_to(source):
                raise Invalid(f"the source has the link {path!r} to {link!r}, which leads out of it")
            (target / path).symlink_to(link)
            digest.update(f"link {path}\0{link}\0".encode(errors="surrogateescape"))
        elif entry.is_dir():
            (target / path).mkdir()
            digest.update(f"folder {path}\0".encode(errors="surrogateescape"))
        elif entry.is_file():
            size += entry.stat().st_size
            is_executable = bool(entry.stat().st_mode & 0o100)
            content = _copy_file(entry.path, target / path, 0o755 if is_executable else 0o644)
            digest.update(f"file {path}\0{is_executable:d}\0{content}\0".encode(errors="surrogateescape"))
        if entries >= archive.MAX_ENTRIES or size > archive.MAX_BYTES:
            raise TooLarge(
                f"the source {source} has more than {archive.MAX_ENTRIES:,} entries or {archive.MAX_BYTES >> 20:,} MiB"
            )
    return digest.hexdigest()


def _copy_file(source: str, target: Path, mode: int) -> str:
    digest = hashlib.sha256()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(source, "rb", buffering=0) as reading, open(descriptor, "wb", buffering=0) as writing:
        while chunk := reading.read(_CHUNK_BYTES):
            digest.update(chunk)
            rest = memoryview(chunk)
            while rest:  # on a disk that is almost full, a write may succeed in part
                rest = rest[writing.write(rest) :]
    return digest.hexdigest()


SOURCE = LocalFetcher()
