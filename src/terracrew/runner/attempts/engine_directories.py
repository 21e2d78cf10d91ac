"""Finds and removes the engine directories of attempts. `attempt.engine_directory` describes what is in one."""

from collections.abc import Iterable
from pathlib import Path

from terracrew.attempt import reference
from terracrew.protocol.messages import AttemptRef
from terracrew.system import trees


class EngineDirectories:
    def __init__(self, root: Path) -> None:
        self._root = root

    def of(self, attempt_directory: Path) -> Path:
        return self._root / attempt_directory.name

    def remove(self, attempt_directory: Path) -> None:
        trees.remove_if_possible(self.of(attempt_directory))

    def sweep(self, kept: Iterable[AttemptRef]) -> None:
        """Remove the directories that an earlier process left behind for attempts that have ended."""
        names = {reference.directory_name(ref) for ref in kept}
        for entry in self._root.iterdir():
            if entry.name not in names and entry.is_dir() and not entry.is_symlink():
                trees.remove_if_possible(entry)
