"""Finds, signals and awaits all processes of an attempt: by its cgroup, its subreaper, or its session, in this order."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from terracrew.attempt import process_record
from terracrew.attempt.process_record import ProcessIdentity, ProcessRecord
from terracrew.runner.processes import cgroups
from terracrew.system import procfs
from terracrew.system.procfs import Process, stat

log = logging.getLogger(__name__)

_SCAN_SECONDS = 0.25


async def ended(record: ProcessRecord) -> None:
    """Return when no process of the attempt is left."""
    if record.boot_id != process_record.boot_id():
        return
    if _has_cgroup(record):
        await cgroups.until_empty(record.cgroup)
    elif record.subreaper is not None:
        await exited(record.subreaper)
    else:
        await session_ended(record)


async def are_gone(record: ProcessRecord) -> bool:
    """Return whether no process of the attempt is left now."""
    if record.boot_id != process_record.boot_id():
        return True
    if _has_cgroup(record):
        return cgroups.is_empty(record.cgroup)
    if record.subreaper is not None and process_record.is_running(record.subreaper):
        return False
    return not await asyncio.to_thread(_session, record)


async def session_ended(record: ProcessRecord) -> None:
    """Return when no process is left that can be found without a cgroup and without a subreaper."""
    while await asyncio.to_thread(_session, record):  # noqa: ASYNC110  (the kernel does not report the end of a session)
        await asyncio.sleep(_SCAN_SECONDS)


def send(record: ProcessRecord, number: signal.Signals) -> None:
    """Send a signal to every process of the attempt."""
    if record.boot_id != process_record.boot_id() or record.is_guess:
        return
    if _has_cgroup(record):
        cgroups.send(record.cgroup, number)
        return
    if record.subreaper is not None and process_record.is_running(record.subreaper):
        found = procfs.descendants(record.subreaper.pid)
    else:
        found = _session(record)
    for process in found:
        log.info("sending %s to process %d, a descendant of process %d", number.name, process.pid, record.pid)
        procfs.send(process, number)


def kill(record: ProcessRecord) -> None:
    if record.boot_id == process_record.boot_id() and _has_cgroup(record):
        log.info("killing every process of %s", record.cgroup)
        cgroups.kill(record.cgroup)
    else:
        send(record, signal.SIGKILL)


def open_running(process: ProcessIdentity) -> int | None:
    """Return a descriptor of a process; None if it has ended."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if process_record.is_running(
        process
    ):  # checked with the descriptor open, because the id may have been reused before
        return pidfd
    os.close(pidfd)
    return None


async def exited(process: ProcessIdentity) -> None:
    """Return when a process of this boot has ended."""
    if (pidfd := open_running(process)) is not None:
        try:
            await pidfd_ended(pidfd)
        finally:
            os.close(pidfd)


async def pidfd_ended(pidfd: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pidfd)


def _has_cgroup(record: ProcessRecord) -> bool:
    return bool(record.cgroup) and cgroups.is_known(record.cgroup)


def _session(record: ProcessRecord) -> list[Process]:
    found = {process.pid: process for process in session_of(record)}
    for pid in list(found):
        found |= {process.pid: process for process in procfs.descendants(pid)}
    return list(found.values())


def session_of(record: ProcessRecord) -> Iterator[Process]:
    """Yield every living process of the record's session, including its leader.

    This reads all of /proc, so it is for attempts that have neither a cgroup nor a subreaper any more.
    """
    if record.boot_id != process_record.boot_id():
        return
    leader = stat(record.pid)
    if leader is not None and leader.start_time != record.start_time:
        return  # the kernel reuses the id of a session only after its last process has ended
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        found = stat(int(name))
        if found is not None and found.session == record.pid and found.is_alive:
            yield Process(int(name), found)


def holder_of(lock: Path) -> ProcessRecord | None:
    """Return the process that holds this file locked (`flock`). Every user can read this from the kernel."""
    try:
        found = lock.stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        fields = line.split()  # for example: 1: FLOCK  ADVISORY  WRITE 708 08:01:2621442 0 EOF
        if len(fields) == 8 and fields[1] == "FLOCK" and fields[5] == wanted:
            with contextlib.suppress(ProcessLookupError):
                return process_record.of(int(fields[4]))
    return None


def found_in(directories: Sequence[Path]) -> ProcessRecord | None:
    """Return a session with a living process whose working directory is in one of these directories.

    This is for an attempt whose record cannot be read.
    """
    for name in os.listdir("/proc"):
        try:
            working = Path(os.readlink(f"/proc/{name}/cwd")) if name.isdigit() else None
        except OSError:  # the process has ended, or belongs to another user
            continue
        found = stat(int(name)) if working and any(working.is_relative_to(each) for each in directories) else None
        if found is not None and found.is_alive:
            leader = stat(found.session)
            start_time = leader.start_time if leader else 0
            return ProcessRecord(found.session, start_time, process_record.boot_id(), is_guess=True)
    return None
