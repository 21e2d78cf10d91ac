"""Gives an engine below a runner of root a view of the file system without the private directories of runner and server.

Landlock keeps an engine from opening files, but not from changing their modes and times, or from watching directories. In a mount
namespace of the engine, each private directory is covered by an empty one, in which only what the rules allow is shown at its usual
path. Directories that the user of the engine could not enter, such as the home of root, are covered in the same way, so engines find
their files there. Shared memory (`/dev/shm`) is the engine's own.
"""

import _thread
import ctypes
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import cache
from pathlib import Path

import msgspec

from terracrew.executor.isolation.landlock import ancestors
from terracrew.protocol.start import EngineAccount

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is mounted anew
_NEW_MOUNTS_FLAG = 0x20000
_NO_SETUID_FLAG, _NO_DEVICES_FLAG, _RECURSIVE_FLAG, _RECEIVE_ONLY_FLAG = 1 << 1, 1 << 2, 1 << 14, 1 << 19
_OPEN_TREE, _MOVE_MOUNT = 428, 429  # the same on every architecture
_CURRENT_DIRECTORY = -100
_CLONE_FLAG, _WHOLE_TREE_FLAG, _EMPTY_PATH_FLAG = 1, 0x8000, 4
_UMASK_BITS = 0o022
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class EngineMounts(msgspec.Struct, frozen=True):
    """What is covered in the view of an engine, and what is shown there nevertheless. No path contains a link."""

    covered: list[str]
    shown: list[str]
    links: dict[str, str]
    """Paths of links in covered directories that the rules name, and what they lead to."""

    def enter(self) -> None:
        """Give the calling thread, and what it starts, the view. The thread must have the rights of root."""
        _check(_libc.unshare(_NEW_MOUNTS_FLAG), "a mount namespace")
        _check(_libc.mount(None, b"/", None, _RECURSIVE_FLAG | _RECEIVE_ONLY_FLAG, None), "a mount namespace")
        trees = [_clone(path) for path in self.shown]
        before = os.umask(_UMASK_BITS)  # it is the thread's own, since the thread has a namespace
        try:
            for path in self.covered:
                _mount_memory(path, b"mode=755,size=1m")
            for path, tree in zip(self.shown, trees, strict=True):
                _show(path, tree)
            for path, target in self.links.items():
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if not os.path.lexists(path):
                    os.symlink(target, path)
        finally:
            os.umask(before)
            for tree in trees:
                os.close(tree)
        if os.path.isdir(SHARED_MEMORY):
            _mount_memory(SHARED_MEMORY, b"mode=1777")


def plan(private: Iterable[str], allowed: Mapping[str, str], account: EngineAccount | None) -> EngineMounts:
    """Decide what an engine of this user sees whose rules have these paths, given with what they are without links."""
    targets = set(allowed.values())
    covered = {path for path in private if os.path.isdir(path)}
    if account is not None:
        covered |= _closed(targets, account)
    # What an operator has opened as a whole, with executor.read_paths or executor.write_paths, is not covered.
    covered = {path for path in covered if targets.isdisjoint((path, *ancestors(path)))}
    covered = {path for path in covered if covered.isdisjoint(ancestors(path))}
    inside = tuple(f"{path}/" for path in covered)
    shown = {target for target in targets if target.startswith(inside)}
    shown = {target for target in shown if shown.isdisjoint(ancestors(target))}
    links = {
        path: target
        for path, target in allowed.items()
        if path != target and path.startswith(inside) and shown.isdisjoint(ancestors(path))
    }
    return EngineMounts(sorted(covered), sorted(shown), links)


@cache
def is_available() -> bool:
    """Whether this process may give its engines such a view. It tries, in a thread that ends with its namespace."""
    is_possible = Future[bool]()

    def attempt() -> None:
        try:
            EngineMounts([], [], {}).enter()
            is_possible.set_result(True)
        except OSError:
            is_possible.set_result(False)

    _thread.start_new_thread(attempt, ())
    return is_possible.result()


def is_open(folder: Path, uid: int, gid: int) -> bool:
    """Return whether a user who is in one group only may enter a directory."""
    found = folder.stat()
    bit = 0o100 if found.st_uid == uid else 0o010 if found.st_gid == gid else 0o001
    return bool(found.st_mode & bit)


def _closed(paths: Iterable[str], account: EngineAccount) -> set[str]:
    """Return the directories on the way to these paths that a user cannot enter, each without those below it."""
    known: dict[str, bool] = {}

    def is_closed(folder: str) -> bool:
        if folder not in known:
            known[folder] = not is_open(Path(folder), account.uid, account.gid)
        return known[folder]

    found = (next(filter(is_closed, reversed(list(ancestors(path)))), None) for path in paths)
    return {path for path in found if path is not None}


def _clone(path: str) -> int:
    """Return a descriptor of a copy of the tree, which is mounted nowhere yet."""
    flags = _CLONE_FLAG | _WHOLE_TREE_FLAG | os.O_CLOEXEC
    return _check(_libc.syscall(_OPEN_TREE, _CURRENT_DIRECTORY, os.fsencode(path), flags), path)


def _show(path: str, tree: int) -> None:
    if os.path.isdir(f"/proc/self/fd/{tree}"):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))
    _check(_libc.syscall(_MOVE_MOUNT, tree, b"", _CURRENT_DIRECTORY, os.fsencode(path), _EMPTY_PATH_FLAG), path)


def _mount_memory(path: str, options: bytes) -> None:
    flags = _NO_SETUID_FLAG | _NO_DEVICES_FLAG
    _check(_libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", flags, options), path)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what} cannot be mounted for an engine: {os.strerror(number)}")
    return result
