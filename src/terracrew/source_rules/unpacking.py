"""Writes the entries of an archive below one directory, whatever its format is, and never anything outside of it.

The paths of all entries are checked together: an entry may not be there twice, nor below a file or a link. Folders are entered one by one
by their descriptors, without following links, and nothing that exists is opened for writing. Links are made after everything else,
and of an archive that somebody else made (`is_source`) only after all of them were walked together: what a link means can depend on
every other link. Only files, folders and symbolic links can be made, and no file has the bits that change its user or group.
"""

import errno
import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

from terracrew.errors import Invalid, TooLarge

MAX_PATH_BYTES = 4096
"""The longest path and the longest target of a link, as for the kernel."""
_MAX_NAME_BYTES = 255
_MAX_LEVELS = 256
"""How many folders of a source can be one below the other. Each entry may have to be reached through all of them."""
_MEAN_PATH_BYTES = 320
"""The paths of all entries together, with those of their folders, may take as many bytes for each entry that is allowed."""
_MAX_LINKS = 40  # as many as a kernel follows
MAX_STEPS = 4_000_000
"""How many names are looked up for all links together. 100,000 links need a third of it, and it takes about two seconds."""
_CHUNK_BYTES = 1 << 18
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Unpacking:
    """The entries of one archive. Without a target, they are checked by the same rules and not written."""

    def __init__(self, target: Path | None, *, max_entries: int, max_bytes: int, is_source: bool = True) -> None:
        """The target is an empty directory. In a source, links that lead out are refused, and paths that other systems read in
        another way. What is not a source is given back with exactly the modes that it had."""
        self._max_entries, self._max_bytes, self._is_source = max_entries, max_bytes, is_source
        self._kinds: dict[str, bool] = {}
        """Every path, and whether it is a folder."""
        self._links: dict[str, str] = {}
        self._modes: list[tuple[str, int]] = []
        self._path_bytes = 0
        self.size = 0
        """The bytes of all files so far."""
        self._target = None if target is None else os.open(target, _DIRECTORY)
        self._entered: str = ""
        self._descriptor = self._target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._target is not None and self._descriptor is not None:
            self._leave()
            os.close(self._target)

    @property
    def entries(self) -> int:
        return len(self._kinds)

    @property
    def has_links(self) -> bool:
        return bool(self._links)

    def files(self) -> Iterator[str]:
        """Yield the paths of everything that is not a folder."""
        return (path for path, is_folder in self._kinds.items() if not is_folder)

    def folder(self, name: str, mode: int) -> None:
        if not (path := self._admit(name, is_folder=True)):
            return
        if not self._is_source:
            self._modes.append((path, mode & 0o777))
        if self._target is not None:
            self._enter(path)

    def file(self, name: str, content: Readable, mode: int) -> None:
        if not (path := self._admit(name, is_folder=False)):
            raise Invalid(f"the archive has {name!r}, which is not the path of a file")
        if self._target is None:
            while chunk := content.read(_CHUNK_BYTES):
                self._count(chunk)
            return
        folder, _, last = path.rpartition("/")
        wanted = (0o755 if mode & 0o100 else 0o644) if self._is_source else mode & 0o777
        parent = self._enter(folder)
        try:
            descriptor = os.open(last, _NEW_FILE, wanted, dir_fd=parent)
        except FileExistsError:
            raise _in_the_way(path) from None
        with open(descriptor, "wb") as file:
            while chunk := content.read(_CHUNK_BYTES):
                self._count(chunk)
                file.write(chunk)
            if not self._is_source:
                os.fchmod(descriptor, wanted)

    def link(self, name: str, to: str) -> None:
        if not (path := self._admit(name, is_folder=False)):
            raise Invalid(f"the archive has {name!r}, which is not the path of a link")
        if not to or "\0" in to or len(os.fsencode(to)) >= MAX_PATH_BYTES:
            raise Invalid(f"the archive has the link {name!r}, whose target is empty or longer than a path can be")
        self._links[path] = to

    def finish(self) -> None:
        """Make the links, if none of them leads out. All other entries must have been given before."""
        if self._is_source:
            _check_links(self._links)
        if self._target is None:
            return
        for path, to in self._links.items():
            folder, _, last = path.rpartition("/")
            try:
                os.symlink(to, last, dir_fd=self._enter(folder))
            except FileExistsError:
                raise _in_the_way(path) from None
        for path, mode in reversed(
            self._modes
        ):  # last, and the inner ones first: a folder may be one that nobody can write to
            os.fchmod(self._enter(path), mode)

    def _admit(self, name: str, *, is_folder: bool) -> str:
        """Return the entry's normalized path, or raise what is wrong with it. The archive's own root is ''."""
        is_foreign = self._is_source and "\\" in name
        if is_foreign or name.startswith("/") or "\0" in name or ".." in name.split("/"):
            raise Invalid(f"the archive has {name!r}, a path that leaves the folder it is unpacked into")
        if len(name) >= MAX_PATH_BYTES:
            raise Invalid(f"the archive has a path of {len(name):,} characters: {name[:100]!r}…")
        path = posixpath.normpath(name)
        if path == ".":
            return ""
        if path in self._kinds:
            if not (is_folder and self._kinds[path]):
                raise Invalid(f"the archive has {path!r} twice")
            return path
        if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in path.split("/")):
            raise Invalid(f"the archive has {name[:400]!r}, a name of more than {_MAX_NAME_BYTES} bytes")
        if self._is_source and path.count("/") > _MAX_LEVELS:
            raise Invalid(f"the archive has {path[:100]!r}…, below more than {_MAX_LEVELS} folders")
        self._add(path, is_folder=is_folder)
        parent = posixpath.dirname(path)
        while parent and (known := self._kinds.get(parent)) is not True:
            if known is False:
                raise Invalid(f"the archive has {path!r} below {parent!r}, which is not a directory")
            self._add(parent, is_folder=True)
            parent = posixpath.dirname(parent)
        return path

    def _add(self, path: str, *, is_folder: bool) -> None:
        self._kinds[path] = is_folder
        self._path_bytes += len(path)
        if len(self._kinds) > self._max_entries:
            raise TooLarge(f"the archive has more than {self._max_entries:,} entries")
        if self._path_bytes > self._max_entries * _MEAN_PATH_BYTES:
            raise TooLarge("the paths in the archive are too long together")

    def _count(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self._max_bytes:
            raise TooLarge(f"the archive holds more than {self._max_bytes >> 20:,} MiB")

    def _enter(self, path: str) -> int:
        """Return the descriptor of a folder, which is made if it is missing. It is valid until the next call."""
        assert self._target is not None
        assert self._descriptor is not None
        if path == self._entered:
            return self._descriptor
        self._leave()
        try:
            for name in path.split("/") if path else ():
                below = _open_folder(name, self._descriptor, 0o755 if self._is_source else 0o700)
                self._leave()
                self._descriptor = below
        except BaseException:
            self._leave()
            raise
        self._entered = path
        return self._descriptor

    def _leave(self) -> None:
        """Go back to the target."""
        assert self._descriptor is not None
        if self._descriptor != self._target:
            os.close(self._descriptor)
        self._entered, self._descriptor = "", self._target


def _open_folder(name: str, parent: int, mode: int) -> int:
    try:
        try:
            return os.open(name, _DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            os.mkdir(name, mode, dir_fd=parent)
            return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise _in_the_way(name) from None
        raise


def _in_the_way(path: str) -> Invalid:
    return Invalid(f"the archive has {path!r}, but there is something else in its place already")


class _Folder(dict[str, "_Folder | str"]):
    """The links below a folder: each name leads to the target of a link, or to a folder with links below it."""


def _check_links(links: dict[str, str]) -> None:
    """Walk all links, each as a kernel would, and refuse one that leaves the root or has no end."""
    root = _tree(links)
    left = MAX_STEPS
    for path in links:
        left = _follow(path, root, left)
        if left < 0:
            raise TooLarge("the archive has too many links, or links with too long targets, to follow all of them")


def _tree(links: dict[str, str]) -> _Folder:
    """Return the root of all links. Nothing is below a link: `_admit` has refused that."""
    root = _Folder()
    for path, to in links.items():
        *folders, last = path.split("/")
        place = root
        for name in folders:
            below = place.setdefault(name, _Folder())
            assert isinstance(below, _Folder)
            place = below
        place[last] = to
    return root


def _follow(path: str, root: _Folder, left: int) -> int:
    """Walk a link step by step. Returns how many of the steps are left, and stops when there are none.

    A step costs the same however deep it is: the place is the folders on the way to it, and no path is put together.
    """
    rest, place, followed, without_links = path.split("/")[::-1], [root], 0, _Folder()
    while rest and left >= 0:
        left -= 1
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if len(place) == 1:
                raise Invalid(f"the archive has the link {path!r}, which leads out of the folder it is unpacked into")
            place.pop()
            continue
        to = place[-1].get(part, without_links)
        if isinstance(to, _Folder):
            place.append(to)
            continue
        followed += 1
        if to.startswith("/"):
            raise Invalid(f"the archive has the link {path!r} to {to!r}, outside the folder it is unpacked into")
        if followed > _MAX_LINKS:
            raise Invalid(f"the archive has the link {path!r}, which leads back to itself")
        rest.extend(reversed(to.split("/")))
    return left
