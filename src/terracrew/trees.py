"""Walks and removes directory trees of any depth. A job can create anything in its own directories.

`os.walk` and `shutil.rmtree` call themselves for each level, so they fail at about 1,000 levels, and a path may have no more
than 4,096 bytes. Here the walk has one open directory at a time, and goes back through `..`.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Level(NamedTuple):
    name: str
    inode: tuple[int, int]
    unvisited: list[str]
    """The names of the directories in it that are still to be visited."""


def below(root: str | Path, *, is_made_writable: bool = False) -> Iterator[tuple[int, str]]:
    """Yield every directory below the root, children before parents, as the descriptor of its parent and its name.

    The descriptor is valid until the next step. A directory that cannot be opened is not descended into. Raises OSError
    if a directory was moved during the walk, because `..` would then lead to other files.
    """
    current = os.open(root, _DIRECTORY)
    try:
        levels = [_level("", current)]
        while True:
            if levels[-1].unvisited:
                name = levels[-1].unvisited.pop()
                try:
                    if is_made_writable:
                        with contextlib.suppress(OSError):
                            os.chmod(name, 0o700, dir_fd=current)
                    child = os.open(name, _DIRECTORY, dir_fd=current)
                except OSError:
                    yield current, name
                    continue
                os.close(current)
                current = child
                levels.append(_level(name, current))
                continue
            name = levels.pop().name
            if not levels:
                return
            parent = os.open("..", _DIRECTORY, dir_fd=current)
            os.close(current)
            current = parent
            if _inode(current) != levels[-1].inode:
                raise OSError(f"a directory below {root} was moved while it was walked")
            yield current, name
    finally:
        os.close(current)


def remove(root: Path) -> None:
    """Remove a directory and its content, even if it has read-only directories, as Go's module cache does."""
    with contextlib.suppress(PermissionError):
        os.chmod(root, 0o700)
    for parent, name in below(root, is_made_writable=True):
        with contextlib.suppress(FileNotFoundError):
            _unlink_files(os.open(name, _DIRECTORY, dir_fd=parent))
            os.rmdir(name, dir_fd=parent)
    _unlink_files(os.open(root, _DIRECTORY))
    os.rmdir(root)


def _unlink_files(directory: int) -> None:
    """Unlink everything but directories, and close the descriptor."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
        for name in names:
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(directory)


def _level(name: str, directory: int) -> _Level:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:  # a cgroup that was removed meanwhile
        names = []
    return _Level(name, _inode(directory), names)


def _inode(directory: int) -> tuple[int, int]:
    found = os.fstat(directory)
    return found.st_dev, found.st_ino


def remove_if_possible(tree: Path) -> None:
    """Remove a directory. If that fails, log it: the next start of the process tries again."""
    try:
        remove(tree)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("the directory %s cannot be removed: %s", tree, error)
