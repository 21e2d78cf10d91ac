"""A cgroup (version 2) for each attempt. A process and all its descendants stay in it, even if they start new sessions."""

import asyncio
import contextlib
import ctypes
import errno
import hashlib
import logging
import os
import select
import signal
from pathlib import Path

from terracrew.errors import TerracrewError
from terracrew.protocol.spec import JobLimits
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
        self.controllers = enable_controllers(root)

    def make(self, name: str, limits: JobLimits | None = None) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        if limits is not None and self.controllers:
            set_limits(path, limits)
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


CONTROLLERS = ("memory", "pids")
SLOWING_RATIO = 0.9
"""Above this share of its memory, the kernel slows an engine down, so that there is time to interrupt it before it is killed."""
EXECUTOR_TASKS = 50
"""How many processes and threads the executor itself may have. They are in the same cgroup as those of the engine."""
EXECUTOR_MEGABYTES = 128
_MEGABYTE_BYTES = 1 << 20


def enable_controllers(folder: Path) -> frozenset[str]:
    """Enable the controllers for the cgroups in this one. Returns those that are enabled.

    A cgroup whose own processes are in it cannot enable any. Then limits are only watched by the executor.
    """
    for name in CONTROLLERS:
        for cgroup in (folder.parent, folder):
            try:
                _write(cgroup / "cgroup.subtree_control", f"+{name}")
            except OSError as error:
                log.debug("the controller %s cannot be enabled in %s: %s", name, cgroup, error.strerror)
    try:
        return frozenset(CONTROLLERS) & set((folder / "cgroup.subtree_control").read_text().split())
    except OSError:
        return frozenset()


def set_limits(cgroup: Path, limits: JobLimits) -> None:
    """Set the limits of an attempt. A file of a controller that is not enabled does not exist."""
    values: dict[str, int] = {}
    if limits.memory_mb is not None:
        own = EXECUTOR_MEGABYTES * _MEGABYTE_BYTES
        values["memory.high"] = int(limits.memory_mb * _MEGABYTE_BYTES * SLOWING_RATIO) + own
        values["memory.max"] = limits.memory_mb * _MEGABYTE_BYTES + own
        values["memory.swap.max"] = 0
    if limits.processes is not None:
        values["pids.max"] = limits.processes + EXECUTOR_TASKS
    for name, value in values.items():
        with contextlib.suppress(FileNotFoundError, PermissionError):  # the controller is not enabled
            _write(cgroup / name, str(value))


def _write(file: Path, text: str) -> None:
    """Write to a file of the kernel. One that does not exist is not created."""
    with open(file, "r+") as opened:
        opened.write(text)


AUTOMATIC, OFF = "auto", "off"
_SYSTEMD = Path("/run/systemd/system")


class NoCgroups(TerracrewError):
    """No cgroup can be made here; the message says why."""

    code = "no_cgroups"


def find_cgroups(setting: str, instance_key: str) -> Cgroups:
    """Return the cgroups of the runner with this key; `setting` as for `parent_of_runners`."""
    parent = parent_of_runners(setting)
    # Two runners in one cgroup have different keys, so neither sees the other's directory as its own.
    name = "terracrew-" + hashlib.sha256(instance_key.encode()).hexdigest()[:16]
    try:
        return Cgroups(parent / name)
    except OSError as error:
        raise NoCgroups(f"{parent / name} cannot be made: {error.strerror}") from error


def parent_of_runners(setting: str) -> Path:
    """Return the cgroup in which a runner makes its own. `setting` is `auto`, `off`, or the directory of a cgroup."""
    if setting == OFF:
        raise NoCgroups("the setting working_directory.cgroup is off")
    parent = _own() if setting == AUTOMATIC else Path(setting)
    if not (parent / "cgroup.procs").exists():
        raise NoCgroups(f"{parent} is not the directory of a cgroup")
    if setting == AUTOMATIC and not _is_delegated(parent):
        raise NoCgroups(f"{parent} belongs to systemd: give the unit Delegate=yes")
    return parent


def _own() -> Path:
    """Return the directory of the cgroup that this process is in."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    inside = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if inside is None:
        raise NoCgroups("this kernel has no cgroups of version 2")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        root, point = mount.split()[3:5]
        if kind.split()[0] == "cgroup2" and (inside + "/").startswith(root.rstrip("/") + "/"):
            return Path(point) / inside.removeprefix(root.rstrip("/")).lstrip("/")
    raise NoCgroups("no file system of type cgroup2 that shows this process is mounted")


def _is_delegated(directory: Path) -> bool:
    """Return whether a process may divide this cgroup. Where systemd runs, it owns every cgroup that it has not delegated."""
    owner = directory.stat().st_uid
    if not _SYSTEMD.exists() or (owner == os.geteuid() and owner != 0):
        return True
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(directory, name) == b"1":
                return True
        except OSError:
            continue
    return False
