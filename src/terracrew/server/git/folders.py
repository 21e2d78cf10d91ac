"""The folders of mirrors on the disk: their locks, their sizes, and their removal."""

import contextlib
import fcntl
import os
from pathlib import Path

from terracrew.system import trees

MAX_BYTES = 20 << 30
"""How large all mirrors together may be before the least recently used ones are removed."""
MAX_UNUSED_SECONDS = 30 * 86400.0
MAX_PACKS = 30
"""Each fetch adds a pack. When there are more, they are combined, because git looks for an object in all of them."""
MAX_LOOSE_OBJECTS_RATIO = 27
"""Objects are spread over 256 folders. When one of them has more, they are packed. This is the bound of `git gc` itself."""
_LEFT_BEHIND = ("*.lock", "refs/terracrew/*.lock", "objects/pack/tmp_*", "objects/tmp_*", "objects/pack/*.lock")
"""What a git that was killed leaves behind. It would make the next fetch fail, or stay forever."""
_LOCK_NAME = ".lock"


def prune(directory: Path, kept: str) -> int:
    """Remove mirrors that were not used for a long time, or do not fit. One that is changed now stays. Returns how many were removed."""
    return trees.prune_cache(
        directory,
        max_bytes=MAX_BYTES,
        max_age_seconds=MAX_UNUSED_SECONDS,
        kept=kept,
        size_of=_size,
        remove=_remove_unused,
    )


def remove_left_behind(folder: Path) -> None:
    """Remove what a git that was killed has left. The lock of the mirror must be held."""
    for pattern in _LEFT_BEHIND:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


def has_many_files(folder: Path) -> bool:
    """Return whether the objects of a mirror should be combined into one pack."""
    packs = sum(1 for _ in (folder / "objects" / "pack").glob("*.pack"))
    return packs > MAX_PACKS or sum(1 for _ in (folder / "objects" / "17").glob("*")) > MAX_LOOSE_OBJECTS_RATIO


def lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK_NAME)


def take(path: Path) -> int | None:
    """Take the lock in a file, and return its descriptor; None if somebody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)  # somebody else has the lock, or removed its file in the meantime
    return None


def _size(folder: Path) -> int:
    total = 0
    for file in (*folder.glob("objects/pack/*"), *folder.glob("objects/??/*")):
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


def remove(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        trees.remove(folder)


def _remove_unused(folder: Path) -> bool:
    if not folder.is_dir() or folder.name.startswith("."):  # it is a lock, or the home of git
        return False
    descriptor = take(lock_of(folder))
    if descriptor is None:
        return False
    try:
        remove(folder)
        lock_of(folder).unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    return True
