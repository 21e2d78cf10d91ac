"""Source archives (tar.gz): the same folder always gives the same bytes, and an archive that could do harm is refused."""

import gzip
import io
import os
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, NamedTuple

from pathspec import GitIgnoreSpec, PathSpec

from terracrew.errors import Invalid, TooLarge
from terracrew.source_rules import configurations
from terracrew.source_rules.unpacking import Unpacking

MAX_BYTES = 1 << 30
MAX_ENTRIES = 100_000
MAX_RATIO = 200
"""Unpacked size over packed size. Text packs at 5 to 20, a bomb at 1,000. Small archives are not checked."""
RATIO_CHECK_FROM_BYTES = 32 << 20
IGNORE_FILE = ".terracrewignore"
_MAX_IGNORE_BYTES = 256 << 10

_ALL_BELOW = re.compile(r"^(?!!)(.*)/\*\*(/?)\s*$")
_ALWAYS_LEFT_OUT = (".terraform", ".git", "*.tfstate", "*.tfstate.*", "terraform.tfstate.d", "errored.tfstate")
_MAX_HEADER_BYTES = 1 << 20  # between two files; a name that is longer is an attack on memory
_BLOCK_BYTES = 1 << 16


class Contents(NamedTuple):
    entries: int
    size: int
    configurations: list[str] | None
    """Some of its configuration files, enough to tell which folders have one for which engine.

    None means that this is not known: there are too many of them, or folders can also be reached through links.
    """


class Ignore:
    """What does not belong to a source: what `.terracrewignore` names, in the syntax of `.gitignore`.

    State files and the directories of Git and of engines are always left out: a state may contain secrets, and no
    pattern with `!` brings it back.
    """

    def __init__(self, folder: Path) -> None:
        file = folder / IGNORE_FILE
        self._patterns = _patterns(file) if file.is_file() else None

    def covers(self, path: str, *, is_directory: bool) -> bool:
        """Tell whether an entry is left out. Nothing below a directory that is left out is asked for."""
        name = path.rpartition("/")[2]
        if any(fnmatchcase(name, one) for one in _ALWAYS_LEFT_OUT):
            return True
        if self._patterns is None:
            return False
        directories, files = self._patterns
        return directories.match_file(path + "/") if is_directory else files.match_file(path)


def _patterns(file: Path) -> tuple[PathSpec[Any], GitIgnoreSpec]:
    """Return the patterns as they apply to directories and to files.

    They differ for directories, where the last pattern that matches decides: `*`, `!*/`, `!*.tf` keeps each directory
    and of the files those with this ending. `a/**` becomes `a/*`, because pathspec lets `a/**` match `a/` itself and
    then `!a/keep.tf` would come too late.
    """
    try:
        with open(file, "rb") as opened:
            content = opened.read(_MAX_IGNORE_BYTES + 1)
        if len(content) > _MAX_IGNORE_BYTES:
            raise TooLarge(f"{file} has more than {_MAX_IGNORE_BYTES:,} bytes")
        lines = [_ALL_BELOW.sub(r"\1/*\2", line) for line in content.decode().splitlines()]
        return PathSpec.from_lines("gitignore", lines), GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error) as error:
        raise Invalid(f"{file} is not a list of patterns like those of .gitignore: {error}") from error


def walk(folder: Path, ignore: Ignore) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every entry that belongs to the source, in one order on every machine, directories before what is in them."""
    pending = [("", folder)]
    while pending:
        prefix, place = pending.pop()
        with os.scandir(place) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        below: list[tuple[str, Path]] = []
        for entry in entries:
            path, is_directory = prefix + entry.name, entry.is_dir(follow_symlinks=False)
            if ignore.covers(path, is_directory=is_directory):
                continue
            yield path, entry
            if is_directory:
                below.append((path + "/", Path(entry.path)))
        pending.extend(reversed(below))


def pack(folder: Path) -> bytes:
    """Return the folder as a tar.gz that depends only on names, contents and the executable bit."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, entry in walk(folder, Ignore(folder)):
            info = tarfile.TarInfo(path)
            info.mode = 0o644
            if entry.is_symlink():
                info.type, info.linkname = tarfile.SYMTYPE, os.readlink(entry.path)
                tar.addfile(info)
            elif entry.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            elif entry.is_file():
                with open(entry.path, "rb") as file:
                    stat = os.fstat(file.fileno())
                    info.size, info.mode = stat.st_size, 0o755 if stat.st_mode & 0o100 else 0o644
                    tar.addfile(info, file)
    data = buffer.getvalue()
    inspect(io.BytesIO(data))
    return data


def pack_files(files: Iterable[tuple[str, str, bytes]]) -> bytes:
    """Return files as a tar.gz like that of `pack`. Each has a path, a mode as git has it, and its content.

    What `covers` always leaves out is left out. Raises what `inspect` raises.
    """
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, mode, content in sorted(files):
            if any(fnmatchcase(part, one) for part in path.split("/") for one in _ALWAYS_LEFT_OUT):
                continue
            info = tarfile.TarInfo(path)
            info.mode = 0o755 if mode == "100755" else 0o644
            if mode == "120000":
                info.type, info.linkname = tarfile.SYMTYPE, content.decode(errors="surrogateescape")
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    data = buffer.getvalue()
    inspect(io.BytesIO(data))
    return data


def inspect(file: IO[bytes]) -> Contents:
    """Read an archive to its end without unpacking it; whatever `extract` would refuse is refused here."""
    return _read(file, None)


def extract(file: IO[bytes], target: Path) -> Contents:
    """Unpack into an empty directory, see `unpacking`."""
    return _read(file, target)


def read_files(
    file: IO[bytes], is_wanted: Callable[[str], bool], *, max_file_bytes: int, max_bytes: int
) -> dict[str, bytes | None]:
    """Return the files of an archive whose paths are wanted; None for links, and for those that are too large, also together."""
    gauge, found, left = _Gauge(file), dict[str, bytes | None](), max_bytes
    try:
        with tarfile.open(fileobj=gauge, mode="r|", bufsize=_BLOCK_BYTES) as tar:
            while (info := tar.next()) is not None:
                gauge.allow(info.size if info.isreg() else 0)
                path = posixpath.normpath(info.name)
                if info.isdir() or not is_wanted(path):
                    continue
                if not info.isreg() or info.size > min(max_file_bytes, left):
                    found[path] = None
                    continue
                content = tar.extractfile(info)
                assert content is not None
                found[path] = content.read()
                left -= info.size
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError, OverflowError) as error:
        raise Invalid(f"this is not a complete tar.gz archive: {error}") from error
    return found


def _read(file: IO[bytes], target: Path | None) -> Contents:
    gauge = _Gauge(file)
    with Unpacking(target, max_entries=MAX_ENTRIES, max_bytes=MAX_BYTES) as unpacking:
        try:
            with tarfile.open(fileobj=gauge, mode="r|", bufsize=_BLOCK_BYTES) as tar:
                while (info := tar.next()) is not None:
                    _unpack(tar, info, unpacking, gauge)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError, OverflowError) as error:
            raise Invalid(f"this is not a complete tar.gz archive: {error}") from error
        unpacking.finish()
    found = None if unpacking.has_links else configurations.files(list(unpacking.files()))
    return Contents(unpacking.entries, unpacking.size, found)


def _unpack(tar: tarfile.TarFile, info: tarfile.TarInfo, unpacking: Unpacking, gauge: "_Gauge") -> None:
    if info.issym():
        unpacking.link(info.name, info.linkname)
    elif info.isdir():
        unpacking.folder(info.name, info.mode)
    elif info.isreg() and not info.issparse():
        gauge.allow(info.size)
        content = tar.extractfile(info)
        assert content is not None
        unpacking.file(info.name, content, info.mode)
    else:
        raise Invalid(f"the archive has {info.name!r}, which is neither a plain file, a directory nor a symbolic link")
    gauge.allow(0)


class _Gauge(io.RawIOBase):
    """The unpacked stream, measured as it is read: bombs and endless headers end here and not in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream = gzip.GzipFile(fileobj=file, mode="rb")
        self._total, self._limit = 0, _MAX_HEADER_BYTES

    def allow(self, content: int) -> None:
        """Let as much through as the next file's content and the headers around it may take."""
        self._limit = self._total + content + _MAX_HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._total += len(data)
        if self._total > MAX_BYTES:
            raise TooLarge(f"the archive holds more than {MAX_BYTES >> 20:,} MiB")
        if self._total > self._limit:
            raise TooLarge("the archive has an entry whose header is too large")
        if self._total > RATIO_CHECK_FROM_BYTES and self._total > MAX_RATIO * max(self._file.tell(), 1):
            raise TooLarge(
                f"the archive unpacks to more than {MAX_RATIO} times its size, so it is refused as a decompression bomb"
            )
        return data

    def readable(self) -> bool:
        return True
