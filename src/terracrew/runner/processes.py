"""Processes as /proc shows them: identified by id and start time, since ids are reused, and found by their session."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec


class ProcessRecord(msgspec.Struct, frozen=True):
    """Which process runs, or ran, an attempt. It leads its own session, so the session's id is its own."""

    pid: int
    start_time: int
    """In clock ticks after the boot (field 22 of /proc/<pid>/stat)."""
    boot_id: str
    is_salvage: bool = False


class Stat(NamedTuple):
    state: str
    session: int
    start_time: int

    @property
    def is_alive(self) -> bool:
        """A zombie has ended; only its parent has not asked yet."""
        return self.state not in "ZX"


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> Stat | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may hold anything, so count from the last one.
    fields = line[line.rindex(b")") + 2 :].split()
    return Stat(fields[0].decode(), int(fields[3]), int(fields[19]))


def of(pid: int, *, is_salvage: bool = False) -> ProcessRecord:
    """The record of a process that is there, dead or alive."""
    found = stat(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} does not exist")
    return ProcessRecord(pid, found.start_time, boot_id(), is_salvage)


def is_alive(record: ProcessRecord) -> bool:
    found = stat(record.pid)
    return (
        found is not None and found.is_alive and found.start_time == record.start_time and record.boot_id == boot_id()
    )


def session_of(record: ProcessRecord) -> Iterator[int]:
    """Every living process of the record's session, the leader included."""
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
            yield int(name)


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
            return ProcessRecord(found.session, leader.start_time if leader else 0, boot_id())
    return None
