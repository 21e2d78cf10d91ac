"""File operations that survive a power cut: when a function returns, data, name and directory are on the disk. Also lock files.

A file that was written but not synced may come back empty, and a name whose directory was not synced may come back
missing or with its old content. Everything that another process or a later start relies on is written through here.
Each function says how many syncs it costs, because a sync takes from 0.1 ms to several milliseconds.
"""

import ctypes
import fcntl
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


def sync_directory(directory: Path) -> None:
    """Make the names in this directory durable. One sync."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make the data of a file durable that somebody else wrote; its name is not covered. One sync."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(path: Path) -> None:
    """Make everything durable that was written so far to the file system of this path. One sync, where each of a thousand files would
    need one of its own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)


def make_directory(directory: Path, mode: int = 0o700) -> None:
    """Create a directory, and its missing ancestors with default permissions. One sync for each, none if it exists."""
    missing: list[Path] = []
    existing = directory
    while not existing.is_dir():
        missing.append(existing)
        existing = existing.parent
    for each in reversed(missing):
        each.mkdir(mode=mode if each == directory else 0o777, exist_ok=True)  # another process may be faster
        sync_directory(each.parent)


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file or replace it: readers see the old content or the new one, also after a crash. Two syncs."""
    draft = write_draft(path, content, mode)
    rename(draft, path)


def publish(path: Path, content: bytes, mode: int = 0o600, *, is_synced: bool = True) -> bool:
    """Create a file with this content unless it exists; of several callers, one gets True. Two syncs, or none."""
    draft = write_draft(path, content, mode, is_synced=is_synced)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    if is_synced:
        sync_directory(path.parent)
    return True


def rename(source: Path, target: Path) -> None:
    """Rename a file or a directory. One sync, or two where the directory changes."""
    os.replace(source, target)
    sync_directory(target.parent)
    if source.parent != target.parent:
        sync_directory(source.parent)


def write_draft(path: Path, content: bytes, mode: int = 0o600, *, is_synced: bool = True) -> Path:
    """Write the content under a name that only this process uses, beside the name that it is for. One sync."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)  # an earlier process with the same id may have left one
    # A job runs as the same user and could put a link there: that is never followed.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    _write_all(descriptor, content, is_synced=is_synced)
    return draft


def overwrite(path: Path, content: bytes) -> None:
    """Write the data of a file that no other process reads yet; its name is not covered. One sync.

    A power cut before `rename` may leave the file missing, empty or incomplete. `rename` gives it the name by which it counts.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    _write_all(os.open(path, flags, 0o600), content, is_synced=True)


def _write_all(descriptor: int, content: bytes, *, is_synced: bool) -> None:
    with open(descriptor, "wb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
        if is_synced:
            os.fsync(file.fileno())


_MAX_HOLDER_BYTES = 80


class AlreadyLockedError(Exception):
    def __init__(self, holder: str, doing: str = "") -> None:
        super().__init__(f"process {holder} holds the lock")
        self.holder = holder
        """The id of the process that holds the lock, or "unknown"."""
        self.doing = doing
        """What that process has said that it is doing (`say`)."""


def acquire_lock(path: Path) -> int:
    """Lock the file and write our process id into it. The lock is held until the returned descriptor is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        say(descriptor, "")
    except BlockingIOError:
        holder, _, doing = os.pread(descriptor, _MAX_HOLDER_BYTES, 0).decode(errors="replace").strip().partition(" ")
        os.close(descriptor)
        raise AlreadyLockedError(holder or "unknown", doing) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def say(descriptor: int, doing: str) -> None:
    """Write our process id, and what this process is doing, into the file that it has locked."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {doing}".strip().encode() + b"\n", 0)
