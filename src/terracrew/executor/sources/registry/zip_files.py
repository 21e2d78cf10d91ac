"""Unpacks zip archives by the same rules as `terracrew.archive` unpacks tar.gz: bombs, and paths that lead out, are refused."""

import io
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from terracrew import archive
from terracrew.errors import Invalid, TooLarge

_CHUNK_BYTES = 1 << 18
_MAX_LINK_BYTES = 4096


def extract(data: bytes, target: Path) -> None:
    """Unpack into an empty directory. Links are made last, so that no file is written through one."""
    links: dict[str, str] = {}
    budget = archive.MAX_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as zipped:
            entries = zipped.infolist()
            _check_sizes(entries, len(data))
            for entry in entries:
                path = _checked(entry)
                mode = entry.external_attr >> 16
                if entry.is_dir():
                    (target / path).mkdir(parents=True, exist_ok=True)
                elif stat.S_ISLNK(mode):
                    links[path] = zipped.read(entry)[:_MAX_LINK_BYTES].decode()
                else:
                    budget = _write(zipped, entry, target / path, budget)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise Invalid(f"this is not a complete zip archive: {error}") from error
    for path, to in links.items():
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if to.startswith("/") or not (place.parent / to).resolve().is_relative_to(target.resolve()):
            raise Invalid(f"the archive has the link {path!r} to {to!r}, which leads out of it")
        place.symlink_to(to)
    for path, to in links.items():  # a link may lead out through another one
        if not (target / path).resolve().is_relative_to(target.resolve()):
            raise Invalid(f"the archive has the link {path!r} to {to!r}, which leads out of it")


def _check_sizes(entries: list[zipfile.ZipInfo], packed: int) -> None:
    if len(entries) > archive.MAX_ENTRIES:
        raise TooLarge(f"the archive has more than {archive.MAX_ENTRIES:,} entries")
    total = sum(entry.file_size for entry in entries)
    if total > archive.MAX_BYTES:
        raise TooLarge(f"the archive holds more than {archive.MAX_BYTES >> 20:,} MiB")
    if total > archive.RATIO_CHECK_FROM_BYTES and total > archive.MAX_RATIO * packed:
        raise TooLarge(
            f"the archive unpacks to more than {archive.MAX_RATIO} times its size, so it is refused as a decompression bomb"
        )


def _checked(entry: zipfile.ZipInfo) -> str:
    name = entry.filename
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise Invalid(f"the archive has {name!r}, which is neither a plain file, a directory nor a symbolic link")
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/"):
        raise Invalid(f"the archive has {name!r}, a path that leaves the folder it is unpacked into")
    return str(PurePosixPath(name))


def _write(zipped: zipfile.ZipFile, entry: zipfile.ZipInfo, to: Path, budget: int) -> int:
    """Write a file, and return how many bytes may still be written. The size in the header may be a lie."""
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipped.open(entry) as source, open(to, "xb") as out:
            while chunk := source.read(_CHUNK_BYTES):
                budget -= len(chunk)
                if budget < 0:
                    raise TooLarge(f"the archive holds more than {archive.MAX_BYTES >> 20:,} MiB")
                out.write(chunk)
    except (FileExistsError, NotADirectoryError):
        raise Invalid(f"the archive has {entry.filename!r} twice, or below a file") from None
    if entry.external_attr >> 16 & 0o100:
        to.chmod(0o755)
    return budget
