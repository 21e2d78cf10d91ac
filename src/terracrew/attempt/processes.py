"""Which process runs an attempt: identified by id and start time, since ids are reused, and how its others are found."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from terracrew.procfs import Process, stat


class ProcessIdentity(msgspec.Struct, frozen=True):
    """One process of this boot: the kernel gives its id to another one later, but not with the same start time."""

    pid: int
    start_time: int
    """In clock ticks after the boot (field 22 of /proc/<pid>/stat)."""


class ProcessRecord(msgspec.Struct, frozen=True):
    """Which process runs, or ran, an attempt. It leads its own session, so the session's id is its own."""

    pid: int
    start_time: int
    boot_id: str
    is_salvage: bool = False
    cgroup: str = ""
    """The directory of the cgroup that holds every process of the attempt; empty where it has none."""
    is_guess: bool = False
    """Found by its working directory alone. It may be an operator's shell, so it is waited for and never sent a signal."""
    subreaper: ProcessIdentity | None = None
    """The parent of the process, which ends after every descendant has ended. An attempt in a cgroup has none."""


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> ProcessIdentity:
    """The identity of a process that exists, dead or alive."""
    found = stat(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} does not exist")
    return ProcessIdentity(pid, found.start_time)


def of(
    pid: int, *, is_salvage: bool = False, cgroup: str = "", subreaper: ProcessIdentity | None = None
) -> ProcessRecord:
    """The record of a process that is there, dead or alive."""
    found = identity(pid)
    return ProcessRecord(pid, found.start_time, boot_id(), is_salvage, cgroup, subreaper=subreaper)


def is_alive(record: ProcessRecord) -> bool:
    return record.boot_id == boot_id() and is_running(ProcessIdentity(record.pid, record.start_time))


def is_running(process: ProcessIdentity) -> bool:
    """Whether it is alive; it must be of this boot."""
    found = stat(process.pid)
    return found is not None and found.is_alive and found.start_time == process.start_time


def session_of(record: ProcessRecord) -> Iterator[Process]:
    """Every living process of the record's session, the leader included. This reads all of /proc, so it is for attempts
    that have neither a cgroup nor a subreaper any more."""
    if record.boot_id != boot_id():
        return
    leader = stat(record.pid)
    if leader is not None and leader.start_time != record.start_time:
        return  # the kernel gives the number of a session away only when nobody is in it any more
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        found = stat(int(name))
        if found is not None and found.session == record.pid and found.is_alive:
            yield Process(int(name), found)


def holder_of(lock: Path) -> ProcessRecord | None:
    """The process that holds this file locked (`flock`), as everybody can see it."""
    try:
        found = lock.stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        fields = line.split()  # 1: FLOCK  ADVISORY  WRITE 708 08:01:2621442 0 EOF
        if len(fields) == 8 and fields[1] == "FLOCK" and fields[5] == wanted:
            with contextlib.suppress(ProcessLookupError):
                return of(int(fields[4]))
    return None


def found_in(directories: Sequence[Path]) -> ProcessRecord | None:
    """A session with a living process that works in one of these directories, for an attempt whose record is unreadable."""
    for name in os.listdir("/proc"):
        try:
            working = Path(os.readlink(f"/proc/{name}/cwd")) if name.isdigit() else None
        except OSError:  # it has ended, or is another user's
            continue
        found = stat(int(name)) if working and any(working.is_relative_to(each) for each in directories) else None
        if found is not None and found.is_alive:
            leader = stat(found.session)
            return ProcessRecord(found.session, leader.start_time if leader else 0, boot_id(), is_guess=True)
    return None
