"""The process that runs an attempt, identified by its id and its start time because the kernel reuses ids."""

from functools import cache
from pathlib import Path

import msgspec

from terracrew.system.procfs import stat


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process of the current boot. The kernel reuses its id later, but not with the same start time."""

    pid: int
    start_time: int
    """Clock ticks between the boot and its start (field 22 of /proc/<pid>/stat)."""


class ProcessRecord(msgspec.Struct, frozen=True):
    """The process that runs, or ran, an attempt. It leads its own session, so the session has the same id."""

    pid: int
    start_time: int
    boot_id: str
    is_salvage: bool = False
    """Whether the process delivers what a dead executor left."""
    cgroup: str = ""
    """The directory of the cgroup that holds every process of the attempt; empty where it has none."""
    is_guess: bool = False
    """Found by its working directory alone. It may be an operator's shell, so it is waited for and never sent a signal."""
    subreaper: ProcessIdentity | None = None
    """The parent of the process, which ends after every descendant has ended. An attempt in a cgroup has none."""
    executor_boot_id: str = ""
    """For a salvage: the boot in which the executor ran; empty if that is not known."""


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> ProcessIdentity:
    """Return the identity of a process that exists. It may be a zombie."""
    found = stat(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} does not exist")
    return ProcessIdentity(pid, found.start_time)


def of(
    pid: int, *, is_salvage: bool = False, cgroup: str = "", subreaper: ProcessIdentity | None = None
) -> ProcessRecord:
    """Return the record of a process that exists. It may be a zombie."""
    found = identity(pid)
    return ProcessRecord(pid, found.start_time, boot_id(), is_salvage, cgroup, subreaper=subreaper)


def is_alive(record: ProcessRecord) -> bool:
    return record.boot_id == boot_id() and is_running(ProcessIdentity(record.pid, record.start_time))


def is_running(process: ProcessIdentity) -> bool:
    """Return whether a process of the current boot is alive."""
    found = stat(process.pid)
    return found is not None and found.is_alive and found.start_time == process.start_time
