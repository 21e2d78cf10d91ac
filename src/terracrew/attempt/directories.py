"""The journal: one directory for each attempt that this runner was granted, and what its files say of it.

It holds the attempt's credential, so no file of the engine is in it: those are in the workspace and in the engine directory
(`engine_directories`).

attempts/<job>.<attempt>/
  attempt.json   durable before anything is started; without it nothing ever was
  pid            which process runs it, made by that process, once; or that it was handed back (`sealed`). Its name is
                 durable before the process does anything else: an attempt without it can be handed back, also after a
                 power cut
  workspace      a link to the attempt's workspace, see `workspaces`
  lock           held by the executor, or by the one that salvages after it
  executor.log   what the executor itself has to say
  done           everything in the directory is acknowledged by the server; holds the number of the outbox's last event
  refused        the server refused the rest for good; holds the same number
"""

from pathlib import Path
from typing import Literal

import msgspec

from terracrew import durable, trees
from terracrew.attempt.delivered import DONE, is_done
from terracrew.attempt.processes import ProcessRecord
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.start import AttemptRecord

RECORD, PID, LOCK, LOG = "attempt.json", "pid", "lock", "executor.log"


class _Pid(msgspec.Struct, frozen=True):
    process: ProcessRecord | Literal["sealed"]


UNKNOWN_PROCESS = ProcessRecord(pid=0, start_time=0, boot_id="")
"""Stands for a record that cannot be read: a process may have run, and the record does not say which."""

_encode = msgspec.json.Encoder().encode
_pid = msgspec.json.Decoder(_Pid).decode
_record = msgspec.json.Decoder(AttemptRecord).decode


def is_job_id(text: str) -> bool:
    """Whether it can be part of a directory's name, and be found again there."""
    return text.isidentifier() and text.isascii()


def directory_of(root: Path, ref: AttemptRef) -> Path:
    return root / f"{ref.job_id}.{ref.attempt}"


def write(root: Path, granted: Granted, server_url: str) -> Path:
    """Journal a grant; when this returns, the disk has it. A grant is never journaled twice."""
    spec = granted.spec
    directory = directory_of(root, AttemptRef(spec.job_id, spec.attempt))
    record = AttemptRecord(
        job_id=spec.job_id,
        attempt=spec.attempt,
        server_url=server_url,
        hub=granted.credentials.hub,
        secrets=[granted.credentials.hub, granted.credentials.api],
        module_path=spec.module_path,
    )
    directory.mkdir(mode=0o700)
    durable.write(directory / RECORD, _encode(record))
    durable.sync_directory(root)
    return directory


def scan(root: Path) -> dict[AttemptRef, Path]:
    """What a runner that starts finds of its predecessor; whatever is not named like an attempt is not ours."""
    found: dict[AttemptRef, Path] = {}
    for directory in sorted(root.iterdir()):
        job_id, _, attempt = directory.name.rpartition(".")
        if directory.is_dir() and is_job_id(job_id) and attempt.isdecimal():
            found[AttemptRef(job_id, int(attempt))] = directory
    return found


def record_of(directory: Path) -> AttemptRecord | None:
    """What the delivery of this attempt needs; None where it cannot be read, so that nothing can be delivered."""
    try:
        return _record((directory / RECORD).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def process_of(directory: Path) -> ProcessRecord | None:
    """Which process runs or ran this attempt; None where none ever did."""
    try:
        process = _pid((directory / PID).read_bytes()).process
    except FileNotFoundError:
        return None
    except ValueError:
        return UNKNOWN_PROCESS
    return None if process == "sealed" else process


def sign(directory: Path, process: ProcessRecord) -> bool:
    """Put one's own process down as the one that runs this attempt; False if it was handed back meanwhile."""
    if not process.is_salvage:
        # After a power cut only the fact that there was a process matters, not which: that saves a sync for each job.
        return durable.publish(directory / PID, _encode(_Pid(process)), with_content=False)
    durable.write(directory / PID, _encode(_Pid(process)))
    return True


def seal(directory: Path) -> bool:
    """Make sure that no process starts on this attempt any more; False if one did."""
    return durable.publish(directory / PID, _encode(_Pid("sealed"))) or process_of(directory) is None


def last_log_line(directory: Path) -> str:
    """The last line that its executor wrote for the people who run this machine."""
    try:
        lines = (directory / LOG).read_bytes()[-4096:].decode(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def remove(directory: Path) -> None:
    """Remove an attempt's directory, `done` last, so that one that is half removed is not taken for something else."""
    if not is_done(directory):
        (directory / DONE).write_text("0")
    for entry in directory.iterdir():
        if entry.name not in (RECORD, PID, DONE):
            if entry.is_dir() and not entry.is_symlink():
                trees.remove(entry)
            else:
                entry.unlink()
    for name in (RECORD, PID, DONE):
        (directory / name).unlink(missing_ok=True)
    directory.rmdir()
