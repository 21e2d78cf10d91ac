"""Runs engines as another user than their executor, where the executor may: in a container that was started for one attempt.

The engine can then neither read the executor's memory and files nor send it signals. Before each start of an engine, it is
given what the executor has made for it since the last one.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from terracrew.attempt.engine_directory import EngineDirectory


class EngineUser(msgspec.Struct, frozen=True):
    uid: int
    """The id of the user, and of its only group."""
    workspaces: Path
    """The directory of workspaces, whose content becomes the engine's. It stays the executor's, so that none can be replaced."""
    files: EngineDirectory


_chosen: EngineUser | None = None


def choose(user: EngineUser) -> None:
    """Run every engine that this process starts from now on as this user."""
    global _chosen
    _chosen = user


def uid() -> int | None:
    """Return the user that engines run as; None if it is that of this process."""
    return _chosen.uid if _chosen else None


def prepare() -> None:
    """Give engines what was made for them. No engine runs while this is called."""
    if _chosen is None:
        return
    provided, produced = _chosen.files.provided, _chosen.files.produced
    for path in (*_below(_chosen.workspaces), produced, *_below(produced)):
        if path.lstat().st_uid != _chosen.uid:
            os.chown(path, _chosen.uid, _chosen.uid, follow_symlinks=False)
    for path in (_chosen.files.path, provided, *_below(provided)):
        let_read(path)


def let_read(path: Path) -> None:
    """Let engines read a file or enter a directory of the executor, if they run as another user."""
    if _chosen is None:
        return
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_gid == _chosen.uid:
        return
    os.chown(path, -1, _chosen.uid, follow_symlinks=False)
    os.chmod(path, stat.S_IMODE(found.st_mode) | (0o050 if stat.S_ISDIR(found.st_mode) else 0o040))


def _below(root: Path) -> Iterator[Path]:
    """Yield everything below a directory. Links are not followed."""
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            yield Path(folder, name)
