"""The cache of installed engines. It is outside every checkout, and several installers can use it at the same time.

engines/<engine>/<version>/<os>_<arch>/<binary>    an installed engine; if it exists, it is complete
partial/<engine>-<version>/…                       files of the lock's holder; the next holder removes what is left
locks/<engine>-<version>
"""

import errno
import fcntl
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

from terracrew.errors import Invalid, Unavailable
from terracrew.system import durable
from terracrew.toolchains import specs

MAX_INSTALL_SECONDS = 3600.0  # a build of Pulumi with empty caches on one slow core takes less than half of it
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def root() -> Path:
    """Return where the cache is: TERRACREW_CACHE, else the user's cache directory."""
    if chosen := os.environ.get("TERRACREW_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "terracrew"


def system() -> tuple[str, str]:
    """Return the operating system and the architecture of this machine, as releases spell them."""
    machine = platform.machine()
    return platform.system().lower(), _ARCHITECTURES.get(machine, machine)


def directory(engine: str, version: str) -> Path:
    """Return the directory that this engine is installed in, or would be."""
    return root() / "engines" / engine / version / "_".join(system())


def binary(spec: specs.Spec, version: str) -> Path | None:
    """Return the program of exactly this version, or None if it is not installed."""
    path = directory(spec.name, version) / spec.programs[0].binary
    return path if os.access(path, os.X_OK) else None


def installed(spec: specs.Spec) -> list[tuple[str, Path]]:
    """Return every installed version of an engine, newest first."""
    found: list[tuple[str, Path]] = []
    try:
        names = sorted(os.listdir(root() / "engines" / spec.name))
    except OSError:
        return found
    for name in names:
        try:
            specs.order(name)
        except Invalid:
            continue  # something else made this entry
        if path := binary(spec, name):
            found.append((name, path))
    return sorted(found, key=lambda one: specs.order(one[0]), reverse=True)


@contextmanager
def locked(name: str, waiting: Callable[[], None]) -> Generator[Path]:
    """Hold the lock of this name and yield an empty directory to work in. `waiting` is called while another process holds it.

    The kernel releases the lock of a killed installer, and this function removes the files that the installer left. The
    directory has a new name each time, so a compiler that outlives its installer cannot write into the next one's files.
    """
    handle = _open_lock(root() / "locks" / name)
    try:
        _acquire(handle, name, waiting)
        partial = root() / "partial" / name
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield Path(tempfile.mkdtemp(dir=partial))
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    finally:
        os.close(handle)


def publish(made: Iterable[Path], target: Path) -> None:
    """Move finished files into place. The engine itself comes last, because its presence means that everything is there."""
    durable.make_directory(target, 0o777)
    for folder in (target, *target.parents):
        if root() in folder.parents:  # also with a strict umask, because engines may run as another user
            folder.chmod(folder.stat().st_mode | 0o055)
    for path in reversed(list(made)):
        path.chmod(0o755)
        durable.sync_file(path)
        os.replace(path, target / path.name)
    durable.sync_directory(target)


def _open_lock(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Unavailable(
            f"the cache {root()} cannot be written ({error.strerror}): set TERRACREW_CACHE to a writable directory"
        ) from error


def _acquire(handle: int, name: str, waiting: Callable[[], None]) -> None:
    deadline = time.monotonic() + MAX_INSTALL_SECONDS
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        if time.monotonic() > deadline:
            raise Unavailable(f"another install of {name} has held {root() / 'locks' / name} for an hour: end it first")
        waiting()
        time.sleep(0.2)


Stage = Literal["note", "wait", "download", "go", "modules", "build", "ready"]


class InstallProgress(Struct, frozen=True):
    """A stage, what it is doing, and how far it is. `done` and `total` count the bytes of a download, or the pieces of other work.

    `total` is None if it is unknown. A `note` is a line that stays visible. While it works, a stage repeats its last report at
    least every second.
    """

    stage: Stage
    text: str
    done: int = 0
    total: int | None = None


Report = Callable[[InstallProgress], None]
