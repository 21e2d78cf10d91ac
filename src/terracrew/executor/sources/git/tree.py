"""The files of a commit: checked before anything is written, and then written into a workspace."""

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from terracrew import archive, trees
from terracrew.errors import Invalid, TooLarge
from terracrew.executor.sources.git.mirror import Mirror

_ENTRY = re.compile(rb"([0-7]{6}) ([a-z]+) ([0-9a-f]+) +([0-9]+|-)\t([^\0]*)\0")
_LINK, _SUBMODULE = b"120000", b"160000"
_REFUSED = re.compile(rb"[/\0](?:\.|\.\.|\.git)(?=[/\0])", re.IGNORECASE)
"""A component of a path that must not be written. The paths are separated and surrounded by NUL."""
_MAYBE_LEFT_OUT = re.compile(rb"\.terraform|tfstate|" + re.escape(archive.IGNORE_FILE.encode()))
"""Occurs in the list of files if the tree may have something that does not belong to a source, see `archive.Ignore`."""


class Submodule(NamedTuple):
    path: str
    commit: str


class Tree(NamedTuple):
    entries: int
    size: int
    links: list[str]
    submodules: list[Submodule]
    has_left_out: bool
    """Whether it may have files that do not belong to a source."""
    same_name: str
    """A path that differs from another one only in upper and lower case; '' if there is none."""


class TreeBudget:
    """How many files and bytes a source may have, with all of its submodules."""

    def __init__(self, entries: int = archive.MAX_ENTRIES, size: int = archive.MAX_BYTES) -> None:
        self._max_entries, self._max_bytes = entries, size
        self._entries = self._bytes = 0

    def spend(self, found: Tree) -> None:
        self._entries += found.entries
        self._bytes += found.size

    def check(self, found: Tree, url: str) -> None:
        """Raise TooLarge if the source would be too large with this tree."""
        if self._entries + found.entries > self._max_entries or self._bytes + found.size > self._max_bytes:
            raise TooLarge(
                f"the repository {url} has more than {self._max_entries:,} files or {self._max_bytes >> 20:,} MiB at this commit"
            )


def read(mirror: Mirror, commit: str) -> Tree:
    """List the files of a commit. Raises Invalid if it has paths that must not be written."""
    listed = mirror.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    entries = _ENTRY.findall(listed)
    paths = [path for *_, path in entries]
    if _REFUSED.search(b"\0".join([b"", *paths, b""])):
        raise Invalid(f"the repository {mirror.url} has a path with `.git`, `.` or `..` in it, which is refused")
    return Tree(
        entries=len(entries),
        size=sum(int(size) for *_, size, _ in entries if size != b"-"),
        links=[os.fsdecode(path) for mode, *_, path in entries if mode == _LINK],
        submodules=[
            Submodule(os.fsdecode(path), of.decode()) for mode, _, of, _, path in entries if mode == _SUBMODULE
        ],
        has_left_out=_MAYBE_LEFT_OUT.search(listed) is not None,
        same_name=_same_name(paths),
    )


def _same_name(paths: list[bytes]) -> str:
    seen: set[bytes] = set()
    for path in paths:
        if (folded := path.lower()) in seen:
            return os.fsdecode(path)
        seen.add(folded)
    return ""


def check_case(found: Tree, folder: Path, url: str) -> None:
    """Raise Invalid if two files of the tree would be one file in this folder."""
    if found.same_name and folds_case(folder):
        raise Invalid(
            f"the repository {url} has {found.same_name!r} twice, in upper and in lower case, and the file system of this "
            "runner cannot keep them apart"
        )


def folds_case(folder: Path) -> bool:
    """Return whether the file system takes upper and lower case for the same."""
    with tempfile.NamedTemporaryFile(prefix=".case-A", dir=folder) as probe:
        return os.path.exists(os.path.join(folder, os.path.basename(probe.name).swapcase()))


def write(mirror: Mirror, commit: str, to: Path, scratch: Path) -> None:
    """Write the files of a commit into an empty folder. Nothing of git itself is written there."""
    with tempfile.TemporaryDirectory(prefix=".index-", dir=scratch) as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        mirror.run(f"--work-tree={to}", "read-tree", "--reset", "-u", commit, env=index, cwd=to)


def check_links(workspace: Path, links: Iterable[str], url: str) -> None:
    """Raise Invalid if a symbolic link leads out of the source. All files must have been written before."""
    root = workspace.resolve()
    for path in links:
        to = os.readlink(workspace / path)
        if to.startswith("/") or not Path(os.path.realpath(workspace / path)).is_relative_to(root):
            raise Invalid(f"the repository {url} has the link {path!r} to {to!r}, which leads out of it")


def remove_left_out(workspace: Path) -> None:
    """Remove what does not belong to a source: states, the directories of engines, and what `.terracrewignore` names."""
    ignore = archive.Ignore(workspace)
    for folder, names, files in os.walk(workspace):
        below = "" if folder == str(workspace) else f"{os.path.relpath(folder, workspace)}/"
        for name in [*files, *names]:
            is_folder = name in names and not os.path.islink(f"{folder}/{name}")
            if not ignore.covers(below + name, is_directory=is_folder):
                continue
            if is_folder:
                trees.remove(Path(folder) / name)
                names.remove(name)
            else:
                os.unlink(f"{folder}/{name}")
