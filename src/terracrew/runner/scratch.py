"""The temporary directory of each attempt: named after it, given to its engine as TMPDIR, removed with it."""

import base64
import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

from terracrew import trees
from terracrew.protocol.messages import AttemptRef

log = logging.getLogger(__name__)

MAX_PATH_BYTES = 107 - len("/plugin-dir1234567890/plugin1234567890")
"""Provider plug-ins put their sockets into TMPDIR, and the path of a socket may not be longer than 107 bytes."""


class Scratch:
    def __init__(self, root: str, owner: str) -> None:
        """`owner` names the runner instance: several may share a root, which may be the system's temporary directory."""
        self._root = Path(root) / _short(owner, 3)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._is_warned = False

    def make(self, ref: AttemptRef) -> dict[str, str]:
        """Make the directory; the answer goes into the engine's environment."""
        directory = self._root / _name(ref)
        if len(str(directory).encode()) > MAX_PATH_BYTES:
            if not self._is_warned:
                self._is_warned = True
                log.warning(
                    "%s is too long for the sockets of provider plug-ins, so engines use the system's temporary directory: "
                    "set a temp_directory of up to %d bytes", self._root, MAX_PATH_BYTES - len(_name(ref)) - 1,
                )  # fmt: skip
            return {}
        directory.mkdir(mode=0o700, exist_ok=True)
        return {"TMPDIR": str(directory)}

    def remove(self, ref: AttemptRef) -> None:
        trees.remove_if_possible(self._root / _name(ref))

    def sweep(self, kept: Iterable[AttemptRef]) -> None:
        """Remove what an earlier process left of attempts that have ended."""
        names = {_name(ref) for ref in kept}
        for entry in self._root.iterdir():
            if entry.is_dir() and entry.name not in names:
                trees.remove_if_possible(entry)


def _name(ref: AttemptRef) -> str:
    """Ten characters made from the attempt's id, so that the default directories leave room for the sockets."""
    return _short(f"{ref.job_id}.{ref.attempt}", 10)


def _short(text: str, length: int) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:length]
