"""The system calls of Landlock, by which the kernel removes rights from a thread and its descendants. `rules` has the policy.

A rule gives rights to a file, or to a directory and everything below it. Everything without a rule is denied. Only the calling
thread loses the rights, so an engine is started from a thread that was restricted for it (`Ruleset.run`).
See https://docs.kernel.org/userspace-api/landlock.html.
"""

import _thread
import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from enum import IntFlag
from functools import cache
from typing import NamedTuple, TypeVar

from terracrew.executor.isolation import capabilities, seccomp

T = TypeVar("T")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_SET_NO_NEW_PRIVS = 38
_SCOPE_ABSTRACT_UNIX_SOCKET, _SCOPE_SIGNAL = 1, 2
_ABI_WITH_NETWORK, _ABI_WITH_SCOPES = 4, 6
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Access(IntFlag):
    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Access.READ_FILE | Access.READ_DIR
READ_AND_EXECUTE = READ | Access.EXECUTE
EVERYTHING = Access((1 << 16) - 1) & ~(Access.MAKE_CHAR | Access.MAKE_BLOCK)
"""All rights that a rule may give. The right to make devices is never given."""
_OF_FILES = int(Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV)
_FIRST_ABI = {Access.REFER: 2, Access.TRUNCATE: 3, Access.IOCTL_DEV: 5}


class PathRule(NamedTuple):
    path: str
    access: Access


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("file_access", ctypes.c_uint64), ("network_access", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("directory", ctypes.c_int32))


@cache
def abi() -> int:
    """Return the version of Landlock in this kernel, or 0 if the kernel has none, or if it is switched off or hidden."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION)))


class Ruleset:
    """Rules that threads can be restricted to, until the ruleset is closed."""

    def __init__(self, rules: Iterable[PathRule]) -> None:
        self._handled = int(_handled(abi()))
        scopes = _SCOPE_ABSTRACT_UNIX_SOCKET | _SCOPE_SIGNAL if abi() >= _ABI_WITH_SCOPES else 0
        attributes = _RulesetAttributes(self._handled, 0, scopes)
        words = 3 if scopes else 2 if abi() >= _ABI_WITH_NETWORK else 1
        self._descriptor = _call(
            _CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(8 * words), ctypes.c_uint32(0)
        )
        os.set_inheritable(self._descriptor, False)
        self.paths: dict[str, str] = {}
        """The paths that have a rule, and what they are without links."""
        self.enter_view: Callable[[], None] = lambda: None
        """Called in each thread before it loses its rights, to change what it sees of the file system."""
        try:
            for rule in rules:
                self.add(rule)
        except BaseException:
            self.close()
            raise

    def run(self, work: Callable[[], T]) -> T:
        """Call a function in a thread of its own that was restricted. A process that the function starts, and its descendants, are
        restricted, too. They cannot send signals to those of another call, because each thread has its own domain."""
        done = Future[T]()

        def restricted() -> None:
            """It never raises: the thread that asked gets the error."""
            try:
                self._restrict_thread()
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        try:
            _thread.start_new_thread(restricted, ())
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, "no thread could be made to start an engine") from error
        return done.result()

    def close(self) -> None:
        os.close(self._descriptor)

    def add(self, rule: PathRule) -> None:
        """Add a rule, unless its path does not exist, or this process may not look it up itself."""
        try:
            target = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                return
            raise
        try:
            access = int(rule.access) & self._handled
            if not stat.S_ISDIR(os.fstat(target).st_mode):
                access &= _OF_FILES
            beneath = _PathBeneath(access, target)
            _call(_ADD_RULE, self._descriptor, _RULE_PATH_BENEATH, ctypes.byref(beneath), ctypes.c_uint32(0))
            self.paths[rule.path] = os.readlink(f"/proc/self/fd/{target}")
        finally:
            os.close(target)

    def _restrict_thread(self) -> None:
        """Permanently remove from the calling thread every right that no rule grants, and every way to gain privileges."""
        self.enter_view()
        if _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            number = ctypes.get_errno()
            raise OSError(number, f"no_new_privs: {os.strerror(number)}")
        capabilities.drop()
        _call(_RESTRICT_SELF, self._descriptor, ctypes.c_uint32(0))
        if seccomp.is_available():
            seccomp.restrict_thread()


def resolved(path: str) -> str | None:
    """Return a path without links, or None if it leads nowhere."""
    try:
        return os.path.realpath(path, strict=True)
    except OSError:
        return None


class Surroundings:
    """Divides trees so that the private paths in them can be left out. Landlock allows a whole directory, and cannot exclude a part
    of it. All paths are absolute and contain no links."""

    def __init__(self, private: Iterable[str]) -> None:
        self._private = frozenset(private)
        self._ancestors = frozenset(ancestor for path in self._private for ancestor in ancestors(path))

    def parts_of(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the parts of these paths, which may contain links. The root of the file system, and what does not exist, has none."""
        for path in dict.fromkeys(map(resolved, paths)):
            if path not in (None, "/"):
                yield from self.parts(path)

    def parts(self, tree: str) -> Iterator[str]:
        """Yield the tree itself if nothing in it is private; otherwise the parts of it beside what is private."""
        if self._private.isdisjoint((tree, *ancestors(tree))):
            yield from self._beside(tree)

    def _beside(self, path: str) -> Iterator[str]:
        if path not in self._ancestors:
            yield path
            return
        try:
            children = [f"{path}/{name}" for name in os.listdir(path)]
        except OSError:  # no process that this one starts can list the directory either
            return
        for child in children:
            if child in self._private:
                continue
            if child in self._ancestors:
                yield from self._beside(child)
            else:
                yield child


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories that a path is in, from the nearest one to the root."""
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent


def _handled(version: int) -> Access:
    known = EVERYTHING | Access.MAKE_CHAR | Access.MAKE_BLOCK
    for access, first in _FIRST_ABI.items():
        if version < first:
            known &= ~access
    return known


def _call(number: int, *arguments: object) -> int:
    result = _libc.syscall(number, *arguments)
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"Landlock: {os.strerror(failed)}")
    return result
