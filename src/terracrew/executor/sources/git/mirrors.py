"""The mirrors of a runner: found by the hash of their address, limited in size, and removed when they are not used."""

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Literal, TypeVar

from terracrew.errors import TerracrewError
from terracrew.executor.sources.contract import Deadline
from terracrew.executor.sources.git import remote_errors
from terracrew.executor.sources.git.merge_pack import MergePack
from terracrew.executor.sources.git.mirror import Mirror
from terracrew.executor.sources.git.program import PROGRESS_SECONDS, Git, GitFailed, MirrorFailed
from terracrew.executor.sources.git.revisions import Revision
from terracrew.system import trees

MAX_BYTES = 20 << 30
MAX_UNUSED_SECONDS = 30 * 86400.0
_LOCK = ".lock"
T = TypeVar("T")


_POLL_SECONDS = 0.05
_FLAGS = {"change": fcntl.LOCK_EX, "read": fcntl.LOCK_SH}
Purpose = Literal["change", "read"]


class MirrorLock:
    """A lock that was taken. It ends with the processes that have its descriptor, however they end.

    Git gets the descriptor, too: if an executor is killed while its git still writes, the next attempt waits for that git.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor, self._path = descriptor, path

    def remove(self) -> None:
        """Remove the file of the lock with the mirror that it protects. Others notice that it is gone, and make a new one."""
        self._path.unlink(missing_ok=True)


class Mirrors:
    """The mirrors as the attempts of one owner use them. Others do not get what this owner's credentials have fetched."""

    def __init__(self, folder: Path, owner: str, git: Git, deadline: Deadline, say: Callable[[str], object]) -> None:
        self.folder, self._owner, self._git, self._deadline, self._say = folder, owner, git, deadline, say
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def use(self, url: str, revision: Revision, read: Callable[[Mirror], T], merge: MergePack | None = None) -> T:
        """Call a function with a mirror that has this revision. A mirror that turns out to be damaged is made again.

        A revision that is a merge result is made from its base and the pack.
        """
        mirror = self._mirror(url)

        def obtain() -> None:
            if merge is None:
                mirror.fetch(revision)
            else:
                merge.add(mirror, revision.commit)

        try:
            return self._use(mirror, revision, read, obtain)
        except GitFailed as error:
            if not self._is_damaged(mirror, error):
                raise remote_errors.explained(error, url, has_credential=self._git.has_credential) from error
        self._say(f"Git cannot use the copy of {url} on this runner, so the copy is removed and fetched again")
        with self._hold(mirror, "change"):
            if mirror.folder.exists():
                mirror.remove()
        try:
            return self._use(mirror, revision, read, obtain)
        except GitFailed as error:
            raise remote_errors.explained_of_new_copy(error, url, has_credential=self._git.has_credential) from error

    def fetch_ref(self, url: str, ref: str) -> str | None:
        """Fetch what a ref names now with one request, if nobody uses the mirror at this moment. Returns its commit.

        None means that it has to be resolved first: others use the mirror, and should not have to wait for a network; there is no
        such ref; or something else went wrong here, such as a damaged mirror, which `use` repairs.
        """
        mirror = self._mirror(url)
        with try_to_change(_lock_of(mirror.folder)) as lock:
            if lock is None:
                return None
            try:
                with self._git.inheriting(lock.descriptor):
                    commit = mirror.fetch_ref(ref)
            except GitFailed as error:
                if not isinstance(error, MirrorFailed) and remote_errors.is_explained(error):
                    raise
                return None
            self.prune(mirror)
            return commit

    def _is_damaged(self, mirror: Mirror, error: GitFailed) -> bool:
        if isinstance(error, MirrorFailed) or remote_errors.is_corrupt(error):
            return True
        if remote_errors.is_explained(error):
            return False
        with self._hold(mirror, "read"):
            return mirror.exists and not mirror.is_intact

    def _mirror(self, url: str) -> Mirror:
        return Mirror(self._git, self.folder / hashlib.sha256(f"{self._owner}\n{url}".encode()).hexdigest()[:40], url)

    def _use(self, mirror: Mirror, revision: Revision, read: Callable[[Mirror], T], obtain: Callable[[], None]) -> T:
        with self._hold(mirror, "read"):
            if mirror.has(revision.commit):
                return read(mirror)
        with self._hold(mirror, "change"):
            if not mirror.has(revision.commit):  # another attempt may have fetched it in the meantime
                obtain()
                self.prune(mirror)
        with self._hold(mirror, "read"):
            return read(mirror)

    @contextlib.contextmanager
    def _hold(self, mirror: Mirror, purpose: Purpose) -> Generator[None]:
        announced = False

        def waiting(seconds: float) -> None:
            nonlocal announced
            self._deadline.check(f"waiting for another job that fetches {mirror.url}")
            if seconds > PROGRESS_SECONDS and not announced:
                announced = True
                self._say(f"Waiting for another job of this runner that fetches {mirror.url}")

        with (
            hold(_lock_of(mirror.folder), purpose, waiting) as lock,
            self._git.inheriting(lock.descriptor),
        ):
            yield

    def prune(self, kept: Mirror) -> int:
        """Remove mirrors that are not needed any more. One that is in use stays. Returns how many were removed."""
        return trees.prune_cache(
            self.folder,
            max_bytes=MAX_BYTES,
            max_age_seconds=MAX_UNUSED_SECONDS,
            kept=kept.folder.name,
            size_of=_size,
            remove=_remove,
        )


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK)


def _size(folder: Path) -> int:
    total = 0
    for file in (*folder.glob("objects/pack/*"), *folder.glob("objects/??/*")):
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


def _remove(folder: Path) -> bool:
    if not folder.is_dir():  # it is a lock
        return False
    with try_to_change(_lock_of(folder)) as lock:
        if lock is None:
            return False
        with contextlib.suppress(OSError, TerracrewError):
            trees.remove(folder)
        lock.remove()
    return True


@contextlib.contextmanager
def hold(path: Path, purpose: Purpose, waiting: Callable[[float], None]) -> Generator[MirrorLock]:
    """Hold the lock in this file. `waiting` is called with the seconds that have passed, and ends the wait by an exception."""
    began = time.monotonic()
    while (descriptor := _take(path, purpose)) is None:
        waiting(time.monotonic() - began)
        time.sleep(_POLL_SECONDS)
    try:
        yield MirrorLock(descriptor, path)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def try_to_change(path: Path) -> Generator[MirrorLock | None]:
    """Hold the lock if nobody has it at this moment; yields None otherwise."""
    descriptor = _take(path, "change")
    try:
        yield None if descriptor is None else MirrorLock(descriptor, path)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _take(path: Path, purpose: Purpose) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, _FLAGS[purpose] | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)  # somebody else has the lock, or removed its file in the meantime
    return None
