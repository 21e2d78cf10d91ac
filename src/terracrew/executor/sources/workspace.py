"""The attempt's workspace: its own copy of the source, from an archive or from a folder of this machine, never run in place.

Its path does not depend on the attempt that uses it, since what an engine plans in one place it must apply in the same. So it
is not in the attempt's directory; a link there says which one is the attempt's, and the runner removes it by that.
"""

import asyncio
import hashlib
import io
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar

from terracrew import archive, trees
from terracrew.attempt import files
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge
from terracrew.executor.delivery.transfer import Transfer
from terracrew.executor.sources.archive_cache import ArchiveCache
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import ArchiveSource, JobSpec, LocalSource

P = ParamSpec("P")
T = TypeVar("T")
_COPY_BYTES = 1 << 20
_SMALL_BYTES = 1 << 20
_SMALL_ENTRIES = 300


def claim(root: Path, name: str, directory: Path) -> Path:
    """Make the workspace of this name for the attempt in this directory. One that exists is somebody else's."""
    path = root / name
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise Conflict(f"the workspace {path} is in use") from None
    (directory / files.WORKSPACE).symlink_to(path)
    return path


def of(directory: Path) -> Path:
    return (directory / files.WORKSPACE).readlink()


def release(directory: Path) -> None:
    """Remove the attempt's workspace; it is free for others when this returns."""
    trees.remove(of(directory))
    (directory / files.WORKSPACE).unlink()


def is_name(name: str, job_id: str) -> bool:
    """Return whether this names a workspace of this job."""
    job, _, attempt = name.rpartition(".")
    return job == job_id and attempt.isascii() and attempt.isdigit()


async def fetch(
    spec: JobSpec, workspace: Path, *, cache: Path, roots: Sequence[str], transfer: Transfer
) -> tuple[Path, SourceResolved]:
    """Fill the (empty) workspace; the folder to run the engine in, and what the source was."""
    if isinstance(spec.source, ArchiveSource):
        data = await _archive(spec, spec.source, cache, transfer)
        digest = hashlib.sha256(data).hexdigest()
        await _maybe_in_thread(len(data) > _SMALL_BYTES, archive.extract, io.BytesIO(data), workspace)
        resolved = SourceResolved(f"sha256:{digest}", f"archive {digest[:12]}, {len(data):,} bytes")
    else:
        source = _allowed(spec.source, roots)
        is_large = any(islice(archive.walk(source, archive.Ignore(source)), _SMALL_ENTRIES, None))
        digest = await _maybe_in_thread(is_large, copy, source, workspace)
        resolved = SourceResolved(f"tree:{digest}", f"folder {source}")
    if spec.source_digest and spec.source_digest != resolved.digest:
        raise Conflict(
            f"the source changed since attempt 1 of this job: it was {spec.source_digest} and is {resolved.digest}. "
            "Run a new job to use what is there now"
        )
    return inside(workspace, spec.source.subdirectory), resolved


async def _maybe_in_thread(is_large: bool, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What is small is done at once, so that the engine starts first; what is large must not stop the event loop."""
    if not is_large:
        return function(*args, **kwargs)
    await asyncio.sleep(0)  # see `run_before_loop`: there may be no loop yet
    return await asyncio.to_thread(function, *args, **kwargs)


async def _archive(spec: JobSpec, source: ArchiveSource, cache: Path, transfer: Transfer) -> bytes:
    if spec.archive is not None:
        return _verified(spec.archive, source)
    kept = ArchiveCache(cache / "archives")
    if (data := kept.get(source.sha256)) is not None:
        return data
    data = _verified((await transfer.get("archive")).body, source)
    kept.put(source.sha256, data)
    return data


def _verified(data: bytes, source: ArchiveSource) -> bytes:
    if source.sha256 and hashlib.sha256(data).hexdigest() != source.sha256:
        raise Invalid(f"the archive {source.archive_id} did not arrive whole: its SHA-256 is not {source.sha256}")
    return data


def _allowed(source: LocalSource, roots: Sequence[str]) -> Path:
    path = Path(source.path).expanduser()
    if not path.is_absolute():
        raise Invalid(f"the source {source.path!r} is not an absolute path")
    path = path.resolve()
    # Said before whether it exists, so that nobody can look around on this machine.
    if not any(path.is_relative_to(Path(root).expanduser().resolve()) for root in roots):
        allowed = ", ".join(roots) or "none"
        raise Forbidden(f"the source {source.path!r} is not under a folder that this runner allows ({allowed})")
    if not path.is_dir():
        raise NotFound(f"the source {source.path!r} is not a folder on this runner's machine")
    return path


def inside(workspace: Path, subdirectory: str) -> Path:
    folder = workspace / subdirectory
    if not folder.resolve().is_relative_to(workspace.resolve()):
        raise Invalid(f"the subdirectory {subdirectory!r} leaves the source")
    if not folder.is_dir():
        raise NotFound(f"the source has no folder {subdirectory!r}")
    return folder


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
        while chunk := reading.read(_COPY_BYTES):
            digest.update(chunk)
            writing.write(chunk)
    return digest.hexdigest()
