"""Unpacks zip archives by the rules of `source_rules.archive` for tar.gz: bombs, and paths that lead out, are refused."""

import codecs
import io
import stat
import zipfile
import zlib
from pathlib import Path

from terracrew.errors import Invalid, TooLarge
from terracrew.source_rules import archive
from terracrew.source_rules.unpacking import MAX_PATH_BYTES, Unpacking

codecs.lookup("cp437")  # names of old archives have this encoding, and a thread that is confined cannot import it
_MARK_OF_ENTRY = b"PK\x01\x02"
"""Every entry of the archive's directory begins with it."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those that engines can unpack, too. Others may need any amount of memory."""


def extract(data: bytes, target: Path) -> None:
    """Unpack into an empty directory, see `unpacking`."""
    if data.count(_MARK_OF_ENTRY) > archive.MAX_ENTRIES:  # before an object is made for each of them
        raise TooLarge(f"the archive has more than {archive.MAX_ENTRIES:,} entries")
    with Unpacking(target, max_entries=archive.MAX_ENTRIES, max_bytes=archive.MAX_BYTES) as unpacking:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as zipped:
                entries = zipped.infolist()
                _check_sizes(entries, len(data))
                for entry in entries:
                    _unpack(zipped, entry, unpacking)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise Invalid(f"this is not a complete zip archive: {error}") from error
        unpacking.finish()


def _check_sizes(entries: list[zipfile.ZipInfo], packed: int) -> None:
    total = sum(entry.file_size for entry in entries)
    if total > archive.MAX_BYTES:
        raise TooLarge(f"the archive holds more than {archive.MAX_BYTES >> 20:,} MiB")
    if total > archive.RATIO_CHECK_FROM_BYTES and total > archive.MAX_RATIO * packed:
        raise TooLarge(
            f"the archive unpacks to more than {archive.MAX_RATIO} times its size, so it is refused as a decompression bomb"
        )


def _unpack(zipped: zipfile.ZipFile, entry: zipfile.ZipInfo, unpacking: Unpacking) -> None:
    name, mode = entry.filename, entry.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise Invalid(f"the archive has {name!r}, which is neither a plain file, a directory nor a symbolic link")
    if entry.is_dir() or kind == stat.S_IFDIR:
        unpacking.folder(name, mode)
        return
    if entry.compress_type not in _METHODS:
        raise Invalid(f"the archive has {name!r}, which is packed in another way than by deflate")
    with zipped.open(entry) as content:
        if kind == stat.S_IFLNK:
            unpacking.link(name, content.read(MAX_PATH_BYTES).decode())
        else:
            unpacking.file(name, content, mode)
