"""The file in which an engine leaves its state if its backend does not accept it, or in which it keeps its state anyway.

Only a file that the mutating step of this attempt wrote counts. One that came with the source, or that an earlier step made,
is removed before that step starts, and the path is recorded then. The salvage of a dead executor therefore knows whether a
mutating step was about to start and which single file to look at.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator
from pathlib import Path

import msgspec

from terracrew.attempt import files
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Conflict
from terracrew.executor.sources import workspace
from terracrew.protocol.events import MAX_STATE_BYTES, NOT_IN_OWN_BACKEND
from terracrew.system import durable

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MutationRecord(msgspec.Struct, frozen=True):
    leftover: str
    """The path of the file, relative to the workspace or to the directory of what the engine produces."""
    engine: str
    """The engine that wrote the state."""
    is_produced: bool = False
    """Whether the file is in the directory of what the engine produces, and not in the workspace."""
    known_sha256: str = ""
    """The hash of the state that the step starts from, if the file has it from the beginning."""
    is_kept_here: bool = True
    """Whether Terracrew holds the state. Otherwise the file is one that the module's own backend did not accept."""


def place_of(path: Path, directory: Path, engine_files: EngineDirectory) -> Path:
    """Return the directory that must contain the file: that of what the engine produces, or the workspace."""
    return engine_files.produced if path.is_relative_to(engine_files.produced) else workspace.of(directory)


def remove(path: Path, place: Path) -> bool:
    """Remove a file or a link of this name from the workspace, durably. Returns whether there was one."""
    try:
        with _folder(path, place) as folder:
            if folder is None:
                raise Conflict(f"the folder of {path.name} was replaced by a link that leads out of the workspace")
            if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise Conflict(
                    f"the source has a folder {path.name}, but the engine uses this name for a state that it cannot save: "
                    "rename it"
                )
            os.unlink(path.name, dir_fd=folder)
            os.fsync(folder)
    except FileNotFoundError:
        return False
    return True


def expect(
    directory: Path,
    engine_files: EngineDirectory,
    path: Path,
    engine: str,
    known: bytes | None = None,
    *,
    is_kept_here: bool = True,
) -> None:
    """Record, durably, that a mutating step is about to start and that it may leave its state at this path.

    `known` is the content that the file has when the step starts: an unchanged file is not what the step left.
    """
    place = place_of(path, directory, engine_files)
    digest = "" if known is None else hashlib.sha256(known).hexdigest()
    is_produced = place == engine_files.produced
    record = MutationRecord(str(path.relative_to(place)), engine, is_produced, digest, is_kept_here)
    durable.write(directory / files.MUTATION, msgspec.json.encode(record))


def find(path: Path, place: Path) -> Path | None:
    """Return the path if there is a file. An engine could put links in place of the file or its folders, which are ignored."""
    with contextlib.suppress(OSError), _folder(path, place) as folder:
        if folder is not None and stat.S_ISREG(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
            return path
    return None


@contextlib.contextmanager
def _folder(path: Path, place: Path) -> Generator[int | None]:
    """Open the folder of a file and yield its descriptor; None if it is not inside of `place`.

    The engine may exchange the folder for a link at any time, so it is opened once, and looked at only after that.
    """
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        opened = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        yield descriptor if opened.is_relative_to(place.resolve()) else None
    finally:
        os.close(descriptor)


def find_after_crash(directory: Path, engine_files: EngineDirectory) -> tuple[Path, Path, MutationRecord] | None:
    """Return the file that the mutating step of a dead executor left, if there is one, its place, and the record about it."""
    try:
        record = msgspec.json.decode((directory / files.MUTATION).read_bytes(), type=MutationRecord)
        place = engine_files.produced if record.is_produced else workspace.of(directory)
    except (
        FileNotFoundError,
        msgspec.DecodeError,
    ):  # the record is complete before the engine starts, so no engine was started
        return None
    path = find(place / record.leftover, place)
    return (path, place, record) if path else None


def read(path: Path, place: Path) -> bytes | None:
    """Return the content of the file, or None if it is larger than a state may be. A sparse file can be huge without using disk space.

    Raises OSError if there is no such file in its place any more.
    """
    with _folder(path, place) as folder:
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, "its folder was replaced by a link", path.name)
        descriptor = os.open(path.name, _FILE, dir_fd=folder)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "it was replaced by something else", path.name)
        if found.st_size > MAX_STATE_BYTES:
            return None
        content = file.read(MAX_STATE_BYTES + 1)
    return content if len(content) <= MAX_STATE_BYTES else None


def too_large(name: str) -> str:
    """Return the line in the job's log about a file that was not read."""
    return (
        f"The engine could not save its last state by itself, and {name} has more than the {MAX_STATE_BYTES:,} bytes "
        "that a state may have: it was not read"
    )


def collected(name: str, problem: str, *, is_unfinished: bool = False) -> str:
    """Return the line in the job's log about a file that was recorded."""
    if is_unfinished:
        return f"The last state was taken from {name}; the engine ended while it was changing something"
    if problem == NOT_IN_OWN_BACKEND:
        return (
            f"The engine could not save its last state in the module's own backend. It was taken from {name} and is kept in "
            "quarantine: push it to that backend, and then discard it here. Until then, no job of this module runs"
        )
    if problem:
        return (
            f"The engine could not save its last state by itself, and {name} cannot be read: {problem}. "
            "The file is kept unchanged, in quarantine"
        )
    return f"The engine could not save its last state by itself; it was taken from {name}"
