"""Processes as /proc shows them: their state, their descendants, and signals that cannot reach a reused process id."""

import contextlib
import ctypes
import os
import signal
from pathlib import Path
from typing import NamedTuple

_SET_PARENT_DEATH_SIGNAL = 1
_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None)


class Stat(NamedTuple):
    state: str
    group: int
    session: int
    start_time: int
    """The start in clock ticks after the boot (field 22 of /proc/<pid>/stat)."""
    threads: int = 1

    @property
    def is_alive(self) -> bool:
        """A zombie has ended; only its parent has not asked yet."""
        return self.state not in "ZX"


class Process(NamedTuple):
    pid: int
    stat: Stat


def forbid_inspection() -> None:
    """Keep other processes of this user from attaching to this one and from reading its memory, environment and open files.

    It holds for forked children, and until another program is executed. The kernel writes no core dump either. What the
    world may read in /proc (`stat`, `cgroup`, `children`) stays readable.
    """
    _libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends. It holds until a program with other rights is executed."""
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def become_subreaper() -> None:
    """Make this process the new parent of every descendant whose parent ends, instead of init."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stat(pid: int) -> Stat | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may hold anything, so count from the last one.
    fields = line[line.rindex(b")") + 2 :].split()
    return Stat(fields[0].decode(), int(fields[2]), int(fields[3]), int(fields[19]), int(fields[17]))


def children(pid: int) -> list[int]:
    """Return the children of a process, including those that have ended and that it has not asked for yet."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        # Orphans become children of the first thread, so it is read last.
        for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int, reverse=True):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found


def descendants(pid: int) -> list[Process]:
    """Return the living descendants of a process, without itself. One that is reparented during the walk can be missed, so a
    caller that needs all of them repeats the walk until the kernel says that no child is left."""
    found: dict[int, Process] = {}
    parents = [pid]
    while parents:
        for child in children(parents.pop()):
            if child not in found and (seen := stat(child)) is not None and seen.is_alive:
                found[child] = Process(child, seen)
                parents.append(child)
    return list(found.values())


def private_bytes(pid: int) -> int:
    """Return the memory that a process does not share with a file: its heap, stacks and the like. 0 if it has ended."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_bytes().split()[1:3]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE_BYTES


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended; its id may already belong to another one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        pidfd = os.pidfd_open(process.pid)
        try:
            # Compared after the descriptor is open: from here on it cannot become another process's.
            if (now := stat(process.pid)) is not None and now.start_time == process.stat.start_time:
                signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
