"""Removes and moves the workspaces of this runner. They are beside the attempts' directories, because a later attempt applies
a plan at the path where it was made.

An attempt's executor makes its workspace and links to it from the attempt's directory. A workspace without a link belongs to no attempt.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from terracrew.attempt import files
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
