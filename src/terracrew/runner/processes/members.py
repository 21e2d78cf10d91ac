"""Finds, signals and awaits all processes of an attempt: by its cgroup, its subreaper, or its session, in this order."""

import asyncio
import logging
import os
import signal

from terracrew.attempt import process_record
from terracrew.attempt.process_record import ProcessIdentity, ProcessRecord
from terracrew.runner.processes import cgroups, search
from terracrew.system import procfs
from terracrew.system.procfs import Process

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
    found = {process.pid: process for process in search.session_of(record)}
    for pid in list(found):
        found |= {process.pid: process for process in procfs.descendants(pid)}
    return list(found.values())
