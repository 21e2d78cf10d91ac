"""A cgroup (version 2) for each attempt. A process and all its descendants stay in it, even if they start new sessions."""

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import select
import signal
from pathlib import Path

from terracrew.protocol.spec import JobLimits
from terracrew.runner.processes import controllers
from terracrew.system import trees

log = logging.getLogger(__name__)

_PROCS, _EVENTS, _KILL = "cgroup.procs", "cgroup.events", "cgroup.kill"
_CLONE3, _CLONE_INTO_CGROUP = 435, 1 << 33
_CLONE_FIELDS = (
    "flags",
    "pidfd",
    "child_tid",
    "parent_tid",
    "exit_signal",
    "stack",
    "stack_size",
    "tls",
    "set_tid",
    "set_tid_size",
    "cgroup",
)
_python = ctypes.pythonapi
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Cgroups:
    """The cgroups of one runner: a directory of its own, with one directory in it for each attempt."""

    def __init__(self, root: Path) -> None:
        """Make the directory, and remove what an earlier process left empty."""
        self.root = root
        root.mkdir(exist_ok=True)
        for entry in root.iterdir():
            if entry.is_dir():
                remove(entry)
        self.controllers = controllers.enable(root)

    def make(self, name: str, limits: JobLimits | None = None) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        if limits is not None and self.controllers:
            controllers.limit(path, limits)
        return path

    def find(self, name: str) -> Path | None:
        path = self.root / name
        return path if path.is_dir() else None

    def close(self) -> None:
        """Remove the directory, unless an attempt is still in it."""
        with contextlib.suppress(OSError):
            self.root.rmdir()


class _CloneArguments(ctypes.Structure):
    """`struct clone_args` of clone3(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in _CLONE_FIELDS]


def fork_into(path: str) -> int:
    """Fork a child that is in the cgroup from the start. Returns 0 in the child. Raises OSError if the kernel refuses.

    Moving a process into a cgroup later takes about 10 ms, because the kernel waits for a grace period. Only a process with
    one thread may call this: the C library does not notice the fork, and Python is notified here in the same way as by `os.fork`.
    """
    directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        arguments = _CloneArguments(flags=_CLONE_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=directory)
        _python.PyOS_BeforeFork()
        pid = _libc.syscall(_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments))
        if pid == 0:
            _python.PyOS_AfterFork_Child()
        else:
            _python.PyOS_AfterFork_Parent()
        if pid < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return pid
    finally:
        os.close(directory)


def join(path: str) -> bool:
    """Move the calling process into the cgroup. Returns False if that is not possible."""
    try:
        with open(f"{path}/{_PROCS}", "wb", buffering=0) as file:
            file.write(b"0")
    except OSError as error:
        log.warning("the cgroup %s cannot be joined: %s", path, error)
        return False
    return True


def is_known(path: str) -> bool:
    """Return whether the file system of the cgroup can be seen from here. A missing cgroup was removed only if it can."""
    return os.path.exists(f"{os.path.dirname(path)}/{_PROCS}")


def processes(path: str) -> set[int]:
    """Return every process in the cgroup, and in the cgroups that its processes have made below it."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        found |= _members(os.open(f"{path}/{_PROCS}", os.O_RDONLY | os.O_CLOEXEC))
        for parent, name in trees.below(path):
            with contextlib.suppress(OSError):
                found |= _members(os.open(f"{name}/{_PROCS}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=parent))
    return found - {0}  # the kernel shows processes of other process-id namespaces as 0


def send(path: str, number: signal.Signals) -> None:
    """Send a signal to every process in the cgroup."""
    opened: dict[int, int] = {}
    try:
        for pid in processes(path):
            with contextlib.suppress(ProcessLookupError):
                opened[pid] = os.pidfd_open(pid)
        # Read again with the descriptors open: an id that was reused in between is not in the cgroup.
        for pid in processes(path) & opened.keys():
            log.info("sending %s to process %d of %s", number.name, pid, path)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(opened[pid], number)
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def kill(path: str) -> None:
    """Kill every process in the cgroup, including those that are just being started."""
    try:
        Path(path, _KILL).write_bytes(b"1")
    except OSError:  # kernels before 5.14 do not have it
        send(path, signal.SIGKILL)


def is_empty(path: str) -> bool:
    try:
        return b"populated 1" not in Path(path, _EVENTS).read_bytes()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):  # it was removed, so it was empty
            return True
        raise


async def until_empty(path: str) -> None:
    """Return when no process is left in the cgroup. The kernel reports the change, so this does not poll."""
    try:
        events = os.open(f"{path}/{_EVENTS}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if _is_populated(events):  # it is often empty already, because the executor ends after everything else
            await _until_unpopulated(events)
    finally:
        os.close(events)


async def _until_unpopulated(events: int) -> None:
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    with select.epoll() as poll:  # a loop waits for POLLIN, which is always set here; a change is POLLPRI
        poll.register(events, select.EPOLLPRI)
        loop.add_reader(poll.fileno(), changed.set)
        try:
            while _is_populated(events):
                await changed.wait()
                changed.clear()
        finally:
            loop.remove_reader(poll.fileno())


def remove(path: Path) -> None:
    """Remove a cgroup if it is empty, with the empty cgroups that its processes have made below it."""
    with contextlib.suppress(OSError):
        os.rmdir(path)  # most have none below them
        return
    try:
        for parent, name in trees.below(path):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=parent)
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("the cgroup %s is not removed: %s", path, error)


def _members(procs: int) -> set[int]:
    with open(procs, "rb") as file:
        return {int(pid) for pid in file.read().split()}


def _is_populated(events: int) -> bool:
    try:
        return b"populated 1" in os.pread(events, 256, 0)
    except OSError as error:
        if error.errno == errno.ENODEV:  # it was removed, so it was empty
            return False
        raise
