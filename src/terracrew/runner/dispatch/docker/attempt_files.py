"""The files of an attempt in its container: what is put there before the start, and what the runner reads after the end."""

import io
import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import aiodocker
import msgspec

from terracrew.attempt import files
from terracrew.executor.container import paths
from terracrew.executor.container.user import EXECUTOR_UID
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.docker import daemon as docker_daemon
from terracrew.runner.dispatch.docker.daemon import Container, Daemon
from terracrew.system import durable

MAX_COPIED_BYTES = 1 << 20
_COPIED = (files.PID, files.DONE, files.REFUSED)
_CHUNK_BYTES = 1 << 20
EVERYTHING = "everything.tar"


def upload(start: ExecutorStart, directory: Path) -> bytes:
    """Return the archive that is unpacked on the attempt's volume: the start and, if it is the first one, the record."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, paths.START.name, msgspec.json.encode(start), 0)
        if not start.is_salvage:
            attempts, name = paths.ATTEMPTS.name, directory.name
            for folder in (attempts, f"{attempts}/{name}"):
                _add_directory(tar, folder)
            _add(tar, f"{attempts}/{name}/{files.RECORD}", (directory / files.RECORD).read_bytes(), EXECUTOR_UID)
        _add(tar, paths.COMPLETE.name, b"", 0)  # the last one: the container may be waiting already
    return buffer.getvalue()


def _add_directory(tar: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o700, EXECUTOR_UID, EXECUTOR_UID
    tar.addfile(entry)


def _add(tar: tarfile.TarFile, name: str, content: bytes, uid: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.uid, entry.gid, entry.size = 0o600, uid, uid, len(content)
    entry.mtime = paths.COMPLETE_MTIME_SECONDS
    tar.addfile(entry, io.BytesIO(content))


async def copy_ends(daemon: Daemon, container: Container, directory: Path) -> None:
    """Copy the files that say how the attempt ended into the runner's directory of the attempt, durably."""
    inside = paths.attempt(directory.name)
    for name in _COPIED:
        content = await _read(daemon, container, inside / name)
        if content is not None:
            durable.write(directory / name, content)
    if not (directory / files.DONE).exists() and (log := await _read(daemon, container, inside / files.LOG)):
        (directory / files.LOG).write_bytes(log)


async def _read(daemon: Daemon, container: Container, path: PurePosixPath) -> bytes | None:
    """Return the beginning of a regular file; None if there is none."""
    try:
        archive = await daemon.ask(lambda: container.get_archive(str(path)))
    except aiodocker.DockerError as error:
        if error.status == 404 and "could not find the file" in str(error.message).lower():
            return None
        # Without the container nothing is known about the file: it may be on the volume.
        if docker_daemon.is_missing(error) and "no such container" not in str(error.message).lower():
            return None
        raise
    with archive as tar:
        entry = tar.next()
        if entry is None or not entry.isreg():
            return None
        file = tar.extractfile(entry)
        assert file is not None
        return file.read(MAX_COPIED_BYTES)


async def copy_everything(daemon: Daemon, container: Container, directory: Path) -> None:
    """Copy what the attempt left into an archive in the runner's directory of the attempt. It is not unpacked here."""

    async def copy() -> None:
        async with _archive(daemon, container, paths.ROOT) as response:
            response.raise_for_status()
            with (directory / EVERYTHING).open("wb") as file:
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())  # what it was copied from is removed next
            durable.sync_directory(directory)

    await daemon.ask(copy)


async def holds_attempt(daemon: Daemon, container: Container) -> bool:
    """Return whether a job was ever uploaded to this container. Its content is not read."""

    async def look() -> bool:
        async with _archive(daemon, container, paths.ATTEMPTS) as response:
            if response.status == 404 and "could not find the file" in (await response.json())["message"].lower():
                return False
            response.raise_for_status()
            return True

    return await daemon.ask(look)


def _archive(daemon: Daemon, container: Container, path: Path) -> Any:
    client = daemon.client
    host = "http://localhost" if client.docker_host.startswith("unix://") else client.docker_host
    return client.session.get(f"{host}/containers/{container.id}/archive", params={"path": str(path)}, timeout=None)
