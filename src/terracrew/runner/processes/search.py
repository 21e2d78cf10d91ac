"""Searches /proc for processes of an attempt, if neither a cgroup nor a subreaper identifies them."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from terracrew.attempt import process_record
from terracrew.attempt.process_record import ProcessRecord
from terracrew.system.procfs import Process, stat


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
