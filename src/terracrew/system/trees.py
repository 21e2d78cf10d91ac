"""Walks and removes directory trees of any depth. A job can create anything in its own directories.

`os.walk` and `shutil.rmtree` call themselves for each level, so they fail at about 1,000 levels, and a path may have no more
than 4,096 bytes. Here the walk has two open directories at most, and goes back through `..`.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE_MODE = 0o700


class _Level(NamedTuple):
    name: str
    inode: tuple[int, int]
    unvisited: list[str]
    """The names of the directories in it that are still to be visited."""


def below(root: str | Path, *, is_emptied: bool = False) -> Iterator[tuple[int, str]]:
    """Yield every directory below the root, children before parents, as the descriptor of its parent and its name.

    With `is_emptied`, everything but directories is removed from the root and from each directory when it is reached first.
    The descriptor is valid until the next step. A directory that cannot be opened is not descended into. Raises OSError
    if a directory was moved during the walk, because `..` would then lead to other files.
    """
    current = _open(root, None, is_made_readable=is_emptied)
    try:
        levels = [_level("", current, is_emptied=is_emptied)]
        while True:
            if levels[-1].unvisited:
                name = levels[-1].unvisited.pop()
                try:
                    child = _open(name, current, is_made_readable=is_emptied)
                except OSError:
                    yield current, name
                    continue
                try:
                    level = _level(name, child, is_emptied=is_emptied)
                except BaseException:
                    os.close(child)
                    raise
                if not level.unvisited:
                    os.close(child)
                    yield current, name
                    continue
                os.close(current)
                current = child
                levels.append(level)
                continue
            name = levels.pop().name
            if not levels:
                return
            parent = os.open("..", _DIRECTORY, dir_fd=current)
            os.close(current)
            current = parent
            if _inode(os.fstat(current)) != levels[-1].inode:
                raise OSError(f"a directory below {root} was moved while it was walked")
            yield current, name
    finally:
        os.close(current)


def remove(root: Path) -> None:
    """Remove a directory and its content, even if it has read-only directories, as Go's module cache does."""
    with contextlib.suppress(OSError):
        os.rmdir(root)  # many are empty
        return
    for parent, name in below(root, is_emptied=True):
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=parent)
    os.rmdir(root)


def _open(name: str | Path, parent: int | None, *, is_made_readable: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        if not is_made_readable:
            raise
        os.chmod(name, _WRITABLE_MODE, dir_fd=parent)
        return os.open(name, _DIRECTORY, dir_fd=parent)


def _level(name: str, directory: int, *, is_emptied: bool) -> _Level:
    folders, files = list[str](), list[str]()
    with contextlib.suppress(OSError), os.scandir(directory) as entries:  # a cgroup may have been removed meanwhile
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
    found = os.fstat(directory)
    if is_emptied:
        if found.st_mode & _WRITABLE_MODE != _WRITABLE_MODE:
            with contextlib.suppress(OSError):
                os.fchmod(directory, _WRITABLE_MODE)
        for each in files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each, dir_fd=directory)
    return _Level(name, _inode(found), folders)


def _inode(directory: os.stat_result) -> tuple[int, int]:
    return directory.st_dev, directory.st_ino


def remove_if_possible(tree: Path) -> None:
    """Remove a directory. If that fails, log it: the next start of the process tries again."""
    try:
        remove(tree)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("the directory %s cannot be removed: %s", tree, error)


MAX_DRAFT_SECONDS = 3600.0
"""A draft in a cache that is older was left by a process that died while it wrote it."""


def prune_cache(
    folder: Path,
    *,
    max_bytes: int,
    max_age_seconds: float,
    kept: str = "",
    size_of: Callable[[Path], int] = lambda path: path.lstat().st_size,
    remove: Callable[[Path], bool] = lambda path: path.unlink() is None,
) -> int:
    """Remove what was not used for this time from a cache, then the least recently used entries until the rest fits. Returns how many.

    The time of an entry is that of its last use. A name that begins with a dot is that of a draft. The entry named `kept` stays, and so
    does one that `remove` returns False for. Other processes may use the same cache.
    """
    now, removed, total = time.time(), 0, 0
    found: list[tuple[float, Path]] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):  # another process has removed it
            found.append((path.lstat().st_mtime, path))
    for used_at, path in sorted(found, reverse=True):
        with contextlib.suppress(OSError):
            is_draft = path.name.startswith(".")
            size = 0 if is_draft else size_of(path)
            is_old = now - used_at > (MAX_DRAFT_SECONDS if is_draft else max_age_seconds)
            is_over = is_old or (not is_draft and total + size > max_bytes)
            if is_over and path.name != kept and remove(path):
                removed += 1
            else:
                total += size
    return removed
