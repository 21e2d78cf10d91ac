"""Writes the extra files of a job into its workspace, and never outside of it.

Every attempt has a workspace of its own, made from the source. So a file that an extra file replaced is there again in the
next attempt that is not given the extra file.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from terracrew.errors import Conflict, Invalid
from terracrew.protocol.spec import ExtraFile

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write(folder: Path, files: Sequence[ExtraFile], reserved: Sequence[Path]) -> list[str]:
    """Write the files below a folder of the workspace, and return the paths of those that replaced one of the source.

    Raises an error for a file of the source that may not be replaced, for a path that leads through a link or out of the
    folder, and for one that the engine or Terracrew itself uses (`reserved`).
    """
    replaced: list[str] = []
    for each in files:
        parts = _parts(each.path)
        if any(folder.joinpath(*parts) == path for path in reserved):
            raise Invalid(
                f"the extra file {each.path} has a name that the engine or Terracrew needs: choose another one"
            )
        with _parent(folder, parts[:-1], each.path) as parent:
            if _write(parent, parts[-1], each):
                replaced.append(each.path)
    return replaced


def _parts(path: str) -> tuple[str, ...]:
    """Return the names of a path. The server has checked it; a runner does not rely on that."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\0" in path or any(part in ("..", ".") for part in parts):
        raise Invalid(f"the extra file {path!r} is not at a path inside the source")
    return parts


@contextmanager
def _parent(folder: Path, names: Sequence[str], path: str) -> Generator[int]:
    """Open the directory of a file, and make what is missing of it. No part of the way may be a link."""
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            try:
                below = os.open(name, _DIRECTORY, dir_fd=found)
            except FileNotFoundError:
                os.mkdir(name, 0o755, dir_fd=found)
                below = os.open(name, _DIRECTORY, dir_fd=found)
            except (NotADirectoryError, OSError) as error:
                raise Conflict(
                    f"the extra file {path} cannot be written: {name} is not a folder of the source"
                ) from error
            os.close(found)
            found = below
        yield found
    finally:
        os.close(found)


def _write(parent: int, name: str, file: ExtraFile) -> bool:
    """Write a file. Returns whether it replaced another one, which is removed first: it may be shared with a cache."""
    is_there = True
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        is_there = False
    if is_there:
        if not file.is_overwriting:
            raise Conflict(
                f"the source has a file {file.path} already: rename the extra file, or let it overwrite (--overwrite)"
            )
        try:
            os.unlink(name, dir_fd=parent)
        except OSError:
            raise Conflict(f"the extra file {file.path} cannot replace a folder of the source") from None
    with open(os.open(name, _NEW_FILE, 0o600, dir_fd=parent), "wb") as target:
        target.write(file.content.encode())
    return is_there
