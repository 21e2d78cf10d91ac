"""The journal: one directory for each attempt that this runner was granted, and what its files say of it.

attempts/<job>.<attempt>/
  attempt.json   synced to disk before anything is started; without it nothing ever was
  pid            which process runs it, made by that process, once; or that it was handed back (`sealed`)
  workspace      a link to the attempt's workspace, see `workspaces`
  lock           held by the executor, or by the one that salvages after it
  executor.log   what the executor itself has to say
  done           everything in the directory is acknowledged by the server; holds the number of the outbox's last event
  refused        the server refused the rest for good; holds the same number
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Literal

import msgspec

from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.start import AttemptRecord
from terracrew.runner.processes import ProcessRecord

RECORD, PID, LOCK, LOG, DONE, REFUSED = "attempt.json", "pid", "lock", "executor.log", "done", "refused"


class _Pid(msgspec.Struct, frozen=True):
    process: ProcessRecord | Literal["sealed"]


_encode = msgspec.json.Encoder().encode
_pid = msgspec.json.Decoder(_Pid).decode


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
    with open(os.open(directory / RECORD, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_encode(record))
        file.flush()
        os.fsync(file.fileno())
    _sync(directory)
    _sync(root)
    return directory


def scan(root: Path) -> dict[AttemptRef, Path]:
    """What a runner that starts finds of its predecessor; whatever is not named like an attempt is not ours."""
    found: dict[AttemptRef, Path] = {}
    for directory in sorted(root.iterdir()):
        job_id, _, attempt = directory.name.rpartition(".")
        if directory.is_dir() and is_job_id(job_id) and attempt.isdecimal():
            found[AttemptRef(job_id, int(attempt))] = directory
    return found


def process_of(directory: Path) -> ProcessRecord | None:
    """Which process runs or ran this attempt; None where none ever did."""
    try:
        process = _pid((directory / PID).read_bytes()).process
    except FileNotFoundError:
        return None
    return None if process == "sealed" else process


def sign(directory: Path, process: ProcessRecord) -> bool:
    """Put one's own process down as the one that runs this attempt; False if it was handed back meanwhile."""
    if not process.is_salvage:
        return _publish(directory, process)
    draft = _draft(directory, process)
    draft.replace(directory / PID)
    return True


def seal(directory: Path) -> bool:
    """Make sure that no process starts on this attempt any more; False if one did."""
    return _publish(directory, "sealed") or process_of(directory) is None


def is_done(directory: Path) -> bool:
    return (directory / DONE).exists()


def last_event(directory: Path) -> int | None:
    """The number of the last event in the attempt's outbox, as its delivery left it; None where that cannot be read."""
    name = DONE if is_done(directory) else REFUSED
    try:
        return int((directory / name).read_text())
    except (FileNotFoundError, ValueError):
        return None


def last_words(directory: Path) -> str:
    """The last line that its executor wrote for the people who run this machine."""
    try:
        lines = (directory / LOG).read_bytes()[-4096:].decode(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def remove(directory: Path) -> None:
    """Remove an attempt's directory, `done` last, so that one that is half removed is not taken for something else."""
    (directory / DONE).touch()
    for entry in directory.iterdir():
        if entry.name not in (RECORD, PID, DONE):
            if entry.is_dir() and not entry.is_symlink():
                remove_tree(entry)
            else:
                entry.unlink()
    for name in (RECORD, PID, DONE):
        (directory / name).unlink(missing_ok=True)
    directory.rmdir()


def _publish(directory: Path, process: ProcessRecord | Literal["sealed"]) -> bool:
    """A link is made whole and made once: of executor and runner one wins, and nobody reads half a file."""
    draft = _draft(directory, process)
    try:
        os.link(draft, directory / PID)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _draft(directory: Path, process: ProcessRecord | Literal["sealed"]) -> Path:
    draft = directory / f"{PID}.{os.getpid()}"
    draft.write_bytes(_encode(_Pid(process)))
    return draft


def remove_tree(tree: Path) -> None:
    """Engines leave read-only directories behind (Go's module cache does), which nothing can be removed from."""
    for folder, _, _ in os.walk(tree):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(tree)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
