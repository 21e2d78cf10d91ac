"""Creates, finds and removes the directories of a runner's attempts. `files` describes what is in them."""

import contextlib
import os
from pathlib import Path

from terracrew.attempt import files, record
from terracrew.attempt.delivered import is_done
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.system import durable, trees

_REMOVED_LAST = (files.RECORD, files.CONTAINER, files.DISPATCHER, files.PID, files.DONE)


def path_of(root: Path, ref: AttemptRef) -> Path:
    return root / directory_name(ref)


def create(root: Path, granted: Granted, server_url: str) -> Path:
    """Create the directory of a granted attempt and its record, durably. Raises FileExistsError for a second grant."""
    directory = make(root, granted, server_url)
    sync(directory)
    return directory


def make(root: Path, granted: Granted, server_url: str) -> Path:
    """Create the directory and its record without a sync. An executor calls `sync` before it does what must not be forgotten."""
    directory = path_of(root, AttemptRef(granted.spec.job_id, granted.spec.attempt))
    directory.mkdir(mode=0o700)
    record.write(directory, record.for_grant(granted, server_url))
    return directory


def sync(directory: Path) -> None:
    """Make the directory durable, with its record and all names in it. Three syncs."""
    with contextlib.suppress(FileNotFoundError):  # only an executor that was given its job has one
        durable.sync_file(directory / files.RECORD)
    durable.sync_directory(directory)
    durable.sync_directory(directory.parent)


def scan(root: Path) -> dict[AttemptRef, Path]:
    """Find the attempts of an earlier runner process. Entries with other names are ignored."""
    found: dict[AttemptRef, Path] = {}
    for directory in sorted(root.iterdir()):
        ref = parse_directory_name(directory.name)
        if ref is not None and directory.is_dir():
            found[ref] = directory
    return found


def remove(directory: Path) -> None:
    """Remove an attempt's directory. `done` goes last, so that a crash in between leaves a directory that is done."""
    if not is_done(directory):
        (directory / files.DONE).write_text("0")
    with os.scandir(directory) as entries:
        is_folder = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    last = [name for name in _REMOVED_LAST if name in is_folder]
    for name in [*(is_folder.keys() - last), *last]:
        path = directory / name
        if is_folder[name]:
            trees.remove(path)
        else:
            os.unlink(path)
    os.rmdir(directory)


def directory_name(ref: AttemptRef) -> str:
    """Return the name of the attempt's directory, of its engine directory and of a workspace that it creates."""
    return f"{ref.job_id}.{ref.attempt}"


def parse_directory_name(name: str) -> AttemptRef | None:
    """Return the reference that this name was made from, or None if no attempt has this name."""
    job_id, _, attempt = name.rpartition(".")
    if not is_job_id(job_id) or not (attempt.isascii() and attempt.isdecimal()):
        return None
    return AttemptRef(job_id, int(attempt))


def is_job_id(text: str) -> bool:
    """Return whether this can be part of a directory's name and be read back from it."""
    return text.isidentifier() and text.isascii()


def is_module_id(text: str) -> bool:
    """Return whether this can be part of a file's name."""
    return is_job_id(text)
