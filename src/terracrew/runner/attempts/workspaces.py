"""Removes and moves the workspaces of this runner. They are beside the attempts' directories, because a later attempt applies
a plan at the path where it was made.

An attempt's executor makes its workspace and links to it from the attempt's directory. A workspace without a link belongs to no attempt.
"""

import base64
import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from terracrew.attempt import directories, files
from terracrew.errors import Invalid
from terracrew.protocol.messages import AttemptRef
from terracrew.system import trees


class Workspaces:
    def __init__(self, root: Path) -> None:
        self._root = root

    def remove(self, directory: Path) -> None:
        """Remove the workspace of the attempt in this directory."""
        if path := self._of(directory):
            trees.remove_if_possible(path)

    def relink(self, directory: Path) -> None:
        """Restore the link to the workspace if a power cut removed it. A salvage finds what the engine left through it."""
        path = self._root / directory.name
        if not os.path.lexists(directory / files.WORKSPACE) and path.is_dir():
            (directory / files.WORKSPACE).symlink_to(path)

    def move_into(self, directory: Path) -> None:
        """Move the workspace to where its link is, so that everything that the attempt left is in one place."""
        if (path := self._of(directory)) and path.is_dir():
            moved = directory / f"{files.WORKSPACE}.moved"
            shutil.move(path, moved)  # before the link goes, so that the workspace always has an owner
            (directory / files.WORKSPACE).unlink()
            moved.rename(directory / files.WORKSPACE)

    def sweep(self, found: Mapping[AttemptRef, Path]) -> None:
        """Remove the workspaces that an earlier process left behind for attempts that no longer exist.

        All workspaces of a job that has an attempt here are kept, because that attempt's executor may just have made one.
        """
        jobs = {ref.job_id for ref in found}
        for entry in self._root.iterdir():
            if entry.name.rpartition(".")[0] not in jobs and entry.is_dir() and not entry.is_symlink():
                trees.remove_if_possible(entry)

    def _of(self, directory: Path) -> Path | None:
        """Return the target of the link, if that is a workspace of this runner.

        The engine runs as the same user, so it could have made another link.
        """
        try:
            path = Path(os.readlink(directory / files.WORKSPACE))
        except OSError:
            return None
        return path if path.parent == self._root and path.name not in ("", "..") else None


class EngineDirectories:
    def __init__(self, root: Path) -> None:
        self._root = root

    def of(self, attempt_directory: Path) -> Path:
        return self._root / attempt_directory.name

    def remove(self, attempt_directory: Path) -> None:
        trees.remove_if_possible(self.of(attempt_directory))

    def sweep(self, kept: Iterable[AttemptRef]) -> None:
        """Remove the directories that an earlier process left behind for attempts that have ended."""
        names = {directories.directory_name(ref) for ref in kept}
        for entry in self._root.iterdir():
            if entry.name not in names and entry.is_dir() and not entry.is_symlink():
                trees.remove_if_possible(entry)


log = logging.getLogger(__name__)

MAX_PATH_BYTES = 107 - len("/plugin-dir1234567890/plugin1234567890")
"""Provider plug-ins put their sockets into TMPDIR, and the path of a socket may not be longer than 107 bytes."""

_NAME_CHARACTERS = 10


class TempDirectories:
    def __init__(self, root: str, owner: str) -> None:
        """`owner` names the runner instance: several may share a root, which may be the system's temporary directory."""
        self._root = Path(root) / _short(owner, 3)
        if len(str(self._root).encode()) + 1 + _NAME_CHARACTERS > MAX_PATH_BYTES:
            self._root = _short_root() / _short(owner, 6)
            log.info("%s is too long for the sockets of provider plug-ins: engines use %s", root, self._root)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        """The directory of the temporary directories of this runner."""
        return self._root

    def make(self, ref: AttemptRef) -> dict[str, str]:
        """Make the directory, and return the variables that go into the engine's environment."""
        directory = self._root / _name(ref)
        directory.mkdir(mode=0o700, exist_ok=True)
        return {"TMPDIR": str(directory)}

    def remove(self, ref: AttemptRef) -> None:
        trees.remove_if_possible(self._root / _name(ref))

    def sweep(self, kept: Iterable[AttemptRef]) -> None:
        """Remove the directories that an earlier process left behind for attempts that have ended."""
        names = {_name(ref) for ref in kept}
        for entry in self._root.iterdir():
            if entry.is_dir() and entry.name not in names:
                trees.remove_if_possible(entry)


def _short_root() -> Path:
    """Return a directory with a short path that belongs to this user alone, in a place where everybody can make directories."""
    root = Path(f"/tmp/terracrew-{os.getuid()}")  # noqa: S108 (who owns it is checked)
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Invalid(
            f"{root} is not a directory that only this user can access: remove it, or set working_directory.temp_directory to a "
            f"path of at most {MAX_PATH_BYTES - _NAME_CHARACTERS - 5} bytes"
        )
    return root


def _name(ref: AttemptRef) -> str:
    """Return a short name made from the attempt's id, so that the default directories leave room for the sockets."""
    return _short(directories.directory_name(ref), _NAME_CHARACTERS)


def _short(text: str, length: int) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:length]
