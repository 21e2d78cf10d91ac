"""The working directory of one runner instance: its lock, its key and its folders."""

import logging
import os
import re
import secrets
from pathlib import Path

from terracrew import durable, process_lock
from terracrew.errors import Conflict, Invalid
from terracrew.process_lock import AlreadyLockedError

log = logging.getLogger(__name__)

_KEY_BYTES = 32
_KEY = re.compile(f"[0-9a-f]{{{2 * _KEY_BYTES}}}")


class LocalInstance:
    """Holds the lock of a working directory until `release`. The kernel releases it when the process ends."""

    def __init__(self, working_directory: str) -> None:
        self.root = Path(working_directory)
        self.attempts = self.root / "attempts"
        self.undelivered = self.root / "undelivered"
        """Directories of ended attempts that the server did not accept. A person looks at them."""
        self.cache = self.root / "cache"
        self.warm_workspaces = warm_folder(working_directory)
        """What `init` made, kept by executors for later attempts. Only this process and its executors can use what is in it."""
        # Engines see the resolved path, and another instance must find the workspace of a saved plan at the same path.
        self.workspaces = self.root.resolve() / "workspaces"
        self.engine_directories = self.root.resolve() / "engine-files"
        folders = (self.root, self.attempts, self.undelivered, self.cache, self.workspaces, self.engine_directories)
        try:
            for folder in folders:
                durable.make_directory(folder)
            self._lock = _lock(self.root / "lock")
            self.key = _key(self.root / "instance.key")
        except OSError as error:
            raise Invalid(f"the working directory {self.root} cannot be used: {error}") from error

    def release(self) -> None:
        os.close(self._lock)


def warm_folder(working_directory: str) -> Path:
    """Return where executors keep what `init` made. It is given up first if the disk is full."""
    return Path(working_directory) / "warm"


def _lock(path: Path) -> int:
    try:
        return process_lock.acquire(path)
    except AlreadyLockedError as error:
        raise Conflict(
            f"another runner (process {error.holder}) uses {path.parent}: "
            "stop it, or give this one its own working_directory.working_directory"
        ) from None


def _key(path: Path) -> str:
    """Return the secret with which a restarted process takes its instance over; a directory without one is a new instance."""
    if path.exists():
        if _KEY.fullmatch(known := path.read_text(errors="replace").strip()):
            return known
        log.error("the key in %s is damaged; this runner registers as a new instance", path)
    key = secrets.token_hex(_KEY_BYTES)
    durable.write(path, key.encode())
    return key
