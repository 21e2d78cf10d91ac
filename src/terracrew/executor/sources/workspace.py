"""The attempt's workspace: its own copy of the source, which is never run in place.

An engine must apply a plan at the same path where it was made, possibly in a later attempt. So the workspace is not in the
attempt's directory. A link there leads to it, by which the runner finds and removes it.
"""

from pathlib import Path

from terracrew.attempt import files
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.system import trees


def claim(root: Path, name: str, directory: Path) -> Path:
    """Make the workspace of this name for the attempt in this directory. Raises Conflict if it exists, because another attempt uses it."""
    path = root / name
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise Conflict(f"the workspace {path} is in use") from None
    (directory / files.WORKSPACE).symlink_to(path)
    return path


def of(directory: Path) -> Path:
    return (directory / files.WORKSPACE).readlink()


def release(directory: Path) -> None:
    """Remove the attempt's workspace; it is free for others when this returns."""
    trees.remove(of(directory))
    (directory / files.WORKSPACE).unlink()


def is_name(name: str, job_id: str) -> bool:
    """Whether this names a workspace of this job."""
    job, _, attempt = name.rpartition(".")
    return job == job_id and attempt.isascii() and attempt.isdigit()


def inside(workspace: Path, subdirectory: str) -> Path:
    folder = workspace / subdirectory
    if not folder.resolve().is_relative_to(workspace.resolve()):
        raise Invalid(f"the subdirectory {subdirectory!r} leaves the source")
    if not folder.is_dir():
        raise NotFound(f"the source has no folder {subdirectory!r}")
    return folder
