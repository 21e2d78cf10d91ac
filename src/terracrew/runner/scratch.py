"""The temporary directory of each attempt: named after it, given to its engine as TMPDIR, gone with it."""

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from terracrew.protocol.messages import AttemptRef

log = logging.getLogger(__name__)

# Provider plug-ins put their sockets into TMPDIR, and the path of a socket may not be longer than 107 bytes.
_LONGEST = 107 - len("/plugin-dir1234567890/plugin1234567890")


class Scratch:
    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def make(self, ref: AttemptRef) -> dict[str, str]:
        """Make the directory; the answer goes into the engine's environment."""
        directory = self._root / f"{ref.job_id}.{ref.attempt}"
        if len(str(directory)) > _LONGEST:
            log.warning("%s is too long for the sockets of provider plug-ins: TMPDIR stays as it is", directory)
            return {}
        directory.mkdir(mode=0o700, exist_ok=True)
        return {"TMPDIR": str(directory)}

    def remove(self, ref: AttemptRef) -> None:
        shutil.rmtree(self._root / f"{ref.job_id}.{ref.attempt}", ignore_errors=True)

    def sweep(self, kept: Iterable[AttemptRef]) -> None:
        """Remove what a predecessor left of attempts that are no more."""
        names = {f"{ref.job_id}.{ref.attempt}" for ref in kept}
        for entry in self._root.iterdir():
            if entry.is_dir() and entry.name not in names:
                shutil.rmtree(entry, ignore_errors=True)
