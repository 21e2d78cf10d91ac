"""Runs engines as another user than their executor, where the executor may: in a container that was started for one attempt,
or below a privileged runner.

The engine can then neither read the executor's memory and files nor send it signals. Before each start of an engine, it is
given what the executor has made for it since the last one.

The executor has the rights to change the owner of any file, and the engine may have put anything into its directories.
Therefore nothing is opened by a path that the engine could have changed: directories are entered one by one, without
following links, and a file with several names is left alone, because one of them may be outside.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from terracrew.attempt import files as attempt_files
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Invalid
from terracrew.executor.isolation.mounts import is_open


class EngineUser(msgspec.Struct, frozen=True):
    uid: int
    gid: int
    """The only group of the user."""
    directory: Path
    """The attempt's directory. The workspace that it links to becomes the engine's."""
    files: EngineDirectory


chosen_user: EngineUser | None = None


def choose(user: EngineUser) -> None:
    """Run every engine that this process starts from now on as this user."""
    global chosen_user
    chosen_user = user


def chosen() -> EngineUser | None:
    """Return the user that engines run as; None if it is that of this process."""
    return chosen_user


def prepare() -> None:
    """Give engines what was made for them. No engine of this attempt runs while this is called."""
    if chosen_user is None:
        return
    for root in (_workspace(chosen_user.directory), chosen_user.files.produced):
        if root is not None:
            _give(root, chosen_user)
    for path in (chosen_user.files.path, chosen_user.files.provided, *_below(chosen_user.files.provided)):
        let_read(path)


def let_read(path: Path) -> None:
    """Let engines read a file or enter a directory of the executor, if they run as another user."""
    if chosen_user is None:
        return
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_gid == chosen_user.gid:
        return
    os.chown(path, -1, chosen_user.gid, follow_symlinks=False)
    os.chmod(path, stat.S_IMODE(found.st_mode) | (0o050 if stat.S_ISDIR(found.st_mode) else 0o040))


def require_reachable(program: str) -> None:
    """Raise an error that says what to do if engines cannot start this program."""
    if chosen_user is None:
        return
    place = os.path.realpath(program)
    for folder in reversed(Path(place).parents):
        if not is_open(folder, chosen_user.uid, chosen_user.gid):
            raise Invalid(
                f"engines run as user {chosen_user.uid}, who cannot enter {folder}, where {program} is: install engines in a "
                "directory that every user can enter, and set TERRACREW_CACHE or engine.additional_binary_paths to it"
            )


def _workspace(directory: Path) -> Path | None:
    """Return the workspace, once the executor has made it."""
    try:
        return Path(os.readlink(directory / attempt_files.WORKSPACE))
    except OSError:
        return None


def _give(root: Path, user: EngineUser) -> None:
    """Make a directory and what is in it the user's own. The directory that it is in belongs to the executor."""
    os.chown(root, user.uid, user.gid, follow_symlinks=False)
    for _, folders, names, descriptor in os.fwalk(root, follow_symlinks=False):
        for name in (*folders, *names):
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            has_other_names = not stat.S_ISDIR(found.st_mode) and found.st_nlink > 1
            if found.st_uid != user.uid and not has_other_names:
                os.chown(name, user.uid, user.gid, dir_fd=descriptor, follow_symlinks=False)


def _below(root: Path) -> Iterator[Path]:
    """Yield everything below a directory of the executor. Links are not followed."""
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            yield Path(folder, name)
