"""Which process owns an attempt's directory: the executor locks and signs it before it does anything else.

An executor signs once, by creating `pid`; the runner creates the same file to make sure that no executor starts any more. Only
one of the two can succeed, so an attempt is either run or handed back. The lock keeps two deliveries of one attempt apart.
"""

import os
from pathlib import Path
from typing import Literal

import msgspec

from terracrew.attempt import files, process_record
from terracrew.attempt.process_record import ProcessRecord
from terracrew.system import durable
from terracrew.system.durable import AlreadyLockedError

UNKNOWN_PROCESS = ProcessRecord(pid=0, start_time=0, boot_id="")
"""Stands for a `pid` file that cannot be read: a process may have run, and the file does not say which."""


class _Signature(msgspec.Struct, frozen=True):
    process: ProcessRecord | Literal["start_forbidden"]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Signature).decode


def signature(process: ProcessRecord) -> str:
    """Return the content of `pid` for a process, for a dispatcher that knows of it without the file itself."""
    return _encode(_Signature(process)).decode()


def take(directory: Path, process: ProcessRecord) -> int | None:
    """Lock and sign the directory for the calling process; None if the attempt is not for it to run.

    Returns the descriptor of the lock. The kernel releases the lock when the process ends.
    """
    try:
        lock = durable.acquire_lock(directory / files.LOCK)
    except FileNotFoundError:  # the process started so late that the attempt was handed back and its directory removed
        return None
    except AlreadyLockedError:
        return None
    if not sign(directory, process):
        os.close(lock)
        return None
    return lock


def sign(directory: Path, process: ProcessRecord) -> bool:
    """Record the process that runs this attempt; False if the start was forbidden or another executor has signed.

    `directories.sync` makes it durable that there was a process. Which one does not matter after a power cut. A salvage is durable.
    """
    if not process.is_salvage:
        return durable.publish(directory / files.PID, _encode(_Signature(process)), is_synced=False)
    if (before := process_of(directory)) is not None:
        boot = before.executor_boot_id if before.is_salvage else before.boot_id
        process = msgspec.structs.replace(process, executor_boot_id=boot)
    durable.write(directory / files.PID, _encode(_Signature(process)))
    return True


def forbid_start(directory: Path) -> bool:
    """Make sure that no executor starts on this attempt any more; False if one has signed."""
    is_forbidden = durable.publish(directory / files.PID, _encode(_Signature("start_forbidden")))
    return is_forbidden or process_of(directory) is None


def has_machine_crashed(directory: Path) -> bool:
    """Return whether the machine may have been restarted since the executor ran, for a salvage that has signed the directory.

    What was not synced to the disk is then lost.
    """
    process = process_of(directory)
    return process is None or process.executor_boot_id != process_record.boot_id()


def process_of(directory: Path) -> ProcessRecord | None:
    """Return the process that runs or ran this attempt; None if none did."""
    try:
        process = _decode((directory / files.PID).read_bytes()).process
    except FileNotFoundError:
        return None
    except ValueError:
        return UNKNOWN_PROCESS
    return None if process == "start_forbidden" else process
