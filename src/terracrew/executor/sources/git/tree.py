"""The files of a commit: checked before anything is written, and then written into a workspace."""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from terracrew.errors import Invalid, TooLarge
from terracrew.executor.sources.git.mirror import Mirror
from terracrew.source_rules import archive
from terracrew.system import trees

_LINK, _SUBMODULE = b"120000", b"160000"
_SPECIAL = re.compile(rb"(?:(?<=\0)|\A)(1[26]0000) [a-z]+ ([0-9a-f]+) +(?:[0-9]+|-)\t([^\0]*)\0")
"""An entry that is a link or a submodule."""
_SIZE = re.compile(rb" ([0-9]+)\t")
_PATH = re.compile(rb"\t([^\0]*)\0")
_REFUSED = tuple(
    before + name + after for before in (b"\t", b"/") for name in (b".", b"..", b".git") for after in (b"/", b"\0")
)
"""Components of paths that must not be written, with what is around them in a list."""
_MAYBE_LEFT_OUT = (b".terraform", b"tfstate", archive.IGNORE_FILE.encode())
"""One of these is in the list if the tree may have something that does not belong to a source, see `archive.Ignore`."""


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
    """List the files of a commit. Raises Invalid if it has paths that must not be written.

    The list may have 100,000 lines, so it is searched as a whole, and only lines of interest are taken apart.
    """
    listed = mirror.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    folded = listed.lower()
    if any(each in folded for each in _REFUSED):
        raise Invalid(f"the repository {mirror.url} has a path with `.git`, `.` or `..` in it, which is refused")
    has_special = any(mode + b" " in listed for mode in (_LINK, _SUBMODULE))
    special = _SPECIAL.findall(listed) if has_special else []  # few trees have any, and the search takes a while
    return Tree(
        entries=listed.count(b"\0"),
        size=sum(map(int, _SIZE.findall(listed))),
        links=[os.fsdecode(path) for mode, _, path in special if mode == _LINK],
        submodules=[Submodule(os.fsdecode(path), of.decode()) for mode, of, path in special if mode == _SUBMODULE],
        has_left_out=any(each in folded for each in _MAYBE_LEFT_OUT),
        same_name=_same_name(_PATH.findall(folded)),
    )


def _same_name(folded: list[bytes]) -> str:
    """Return a path that is in the list twice; '' if there is none."""
    if len(set(folded)) == len(folded):
        return ""
    return next(os.fsdecode(path) for path, count in Counter(folded).items() if count > 1)


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
