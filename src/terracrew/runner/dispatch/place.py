"""Where the directories of attempts are: on the runner's own disk, or where only the dispatcher can reach them.

The runner always has a directory for each attempt, with the record that it wrote before the start. An executor on this
machine uses the same directory. An executor in a container, pod or task has its own, and the dispatcher copies into the
runner's what the runner has to know: `pid`, `done` and `refused` (`attempt/files.py`).
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol


class AttemptPlace(Protocol):
    async def retrieve(self, directory: Path, /) -> None:
        """Copy everything that an ended attempt left into its directory on the runner's disk, for a person to look at."""
        ...

    async def remove(self, directory: Path, /) -> None:
        """Remove what is kept elsewhere for an ended attempt. The runner removes its own directory afterwards."""
        ...

    async def sweep(self, kept: Callable[[], Collection[Path]], /) -> None:
        """Remove what earlier processes of this instance left for attempts whose directory is not among these."""
        ...


class RunnerDisk:
    """The place of executors that use the runner's own directories, which the runner removes itself."""

    async def retrieve(self, _directory: Path, /) -> None:
        return

    async def remove(self, _directory: Path, /) -> None:
        return

    async def sweep(self, _kept: Callable[[], Collection[Path]], /) -> None:
        return
