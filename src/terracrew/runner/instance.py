"""The working directory of one runner instance: its lock, its key and its folders."""

import contextlib
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from terracrew.attempt.remembered_points import RememberedPoints
from terracrew.errors import Conflict, Invalid
from terracrew.system import durable
from terracrew.system.durable import AlreadyLockedError
from terracrew.wording import durations

log = logging.getLogger(__name__)

_LOCK = "lock"
_DRAINING = "drains"
_POLL_SECONDS = 0.5
_KEY_BYTES = 32
_KEY = re.compile(f"[0-9a-f]{{{2 * _KEY_BYTES}}}")


class LocalInstance:
    """Holds the lock of a working directory until `release`. The kernel releases it when the process ends."""

    def __init__(self, working_directory: str, held: int | None = None) -> None:
        """`held` is the descriptor of its lock, if the process that started this one holds it (`updating.launcher`)."""
        self.root = Path(working_directory)
        self.attempts = self.root / "attempts"
        self.undelivered = self.root / "undelivered"
        """Directories of ended attempts that the server did not accept. A person looks at them."""
        self.trials = self.root / "trials"
        """Directories of attempts that no server knows (`runner/trial.py`)."""
        self.cache = self.root / "cache"
        self.outputs = self.root / "outputs"
        """The outputs of each module's last job on this machine, without sensitive ones, for programs of the machine."""
        self.warm_workspaces = warm_folder(working_directory)
        """What `init` made, kept by executors for later attempts. Only this process and its executors can use what is in it."""
        # Engines see the resolved path, and another instance must find the workspace of a saved plan at the same path.
        self.workspaces = self.root.resolve() / "workspaces"
        self.engine_directories = self.root.resolve() / "engine-files"
        own = (self.root, self.attempts, self.trials, self.undelivered, self.cache, self.outputs)
        try:
            for folder in (*own, self.workspaces, self.engine_directories):
                durable.make_directory(folder)
            self._lock = lock(working_directory) if held is None else _inherited(held)
            self.key = _key(self.root / "instance.key")
            self.history = RememberedPoints(self.root / "history")
        except OSError as error:
            raise Invalid(f"the working directory {self.root} cannot be used: {error}") from error

    def say_draining(self) -> None:
        """Let a process that finds the directory in use know that this one ends by itself."""
        with contextlib.suppress(OSError):  # a full disk must not keep it from draining
            durable.say(self._lock, _DRAINING)

    def release(self) -> None:
        os.close(self._lock)


def warm_folder(working_directory: str) -> Path:
    """Return where executors keep what `init` made. It is given up first if the disk is full."""
    return Path(working_directory) / "warm"


def wait_for_drain(working_directory: str, max_seconds: float, report: Callable[[str], None]) -> None:
    """Return when no other runner uses the working directory. Raises Conflict if one still does after this time."""
    path, reported = Path(working_directory) / _LOCK, ""
    until = time.monotonic() + max_seconds
    while path.exists():
        try:
            os.close(lock(working_directory))
            return
        except Conflict as error:
            if time.monotonic() >= until:
                raise
            if error.message != reported:
                reported = error.message
                report(f"waiting for up to {durations.duration(max_seconds)}: {reported}")
        time.sleep(_POLL_SECONDS)


def lock(working_directory: str) -> int:
    """Lock a working directory, which is made if it does not exist. Raises Conflict if another runner uses it."""
    path = Path(working_directory) / _LOCK
    try:
        durable.make_directory(path.parent)
        return durable.acquire_lock(path)
    except OSError as error:
        raise Invalid(f"the working directory {path.parent} cannot be used: {error}") from error
    except AlreadyLockedError as error:
        words = f"another runner (process {error.holder}) uses {path.parent}"
        if error.doing == _DRAINING:
            raise Conflict(
                f"{words}. It drains, and ends when its jobs have ended: start this one with --wait-for-drain 1h. After a second "
                f"SIGTERM (kill {error.holder}) it ends at once; its jobs continue, and the next runner takes them over"
            ) from None
        raise Conflict(f"{words}: stop it, or give this one its own working_directory.working_directory") from None


def _inherited(descriptor: int) -> int:
    os.set_inheritable(descriptor, False)
    durable.say(descriptor, "")  # the version before may have said that it drains
    return descriptor


def _key(path: Path) -> str:
    """Return the secret with which a restarted process takes its instance over; a directory without one is a new instance."""
    if path.exists():
        if _KEY.fullmatch(known := path.read_text(errors="replace").strip()):
            return known
        log.error("the key in %s is damaged; this runner registers as a new instance", path)
    key = secrets.token_hex(_KEY_BYTES)
    durable.write(path, key.encode())
    return key


ID_FILE = Path("/etc/machine-id")
_PURPOSE = b"terracrew runner machine\n"
"""What is hashed with the id, because the id itself must not leave the machine (machine-id(5))."""


def machine_digest() -> str:
    """Return a digest of the machine's id; an empty text if the machine, or the container, has none."""
    try:
        found = ID_FILE.read_bytes().strip()
    except OSError:
        return ""
    is_known = found and found != b"uninitialized"
    return hashlib.sha256(_PURPOSE + found).hexdigest()[:32] if is_known else ""
