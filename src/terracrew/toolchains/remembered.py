"""Versions of engines that were asked for when an image was built, so that its containers need not start an engine to ask again.

A program is recognized by its size, its time of change, and its first and last bytes. An image that was made from another one and
has another engine is asked as usual.
"""

import hashlib
import os
from pathlib import Path

import msgspec

FILE = Path("/usr/share/terracrew/engine-versions.json")
_EDGE_BYTES = 64 << 10
_ELF = b"\x7fELF"
"""Only programs that the kernel runs are remembered. A script may choose another version each time."""
_known: dict[str, str] = {}


def write(found: dict[str, str], file: Path = FILE) -> None:
    """Write the versions of these programs, by path."""
    keys = {key: version for path, version in found.items() if (key := _key(Path(path)))}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(keys))


def recall(file: Path = FILE) -> None:
    """Read what the image remembers. Without this call, nothing is remembered."""
    try:
        _known.update(msgspec.json.decode(file.read_bytes(), type=dict[str, str]))
    except FileNotFoundError:
        return


def forget() -> None:
    _known.clear()


def version(path: Path) -> str | None:
    """Return the version of a program; None if it is not remembered. Raises OSError if it cannot be read."""
    return _known.get(_key(path)) if _known else None


def _key(path: Path) -> str:
    """Return what a program is recognized by, or an empty text for a script.

    The first bytes of a Go program contain the id of its build, and the last ones change with the length of everything before.
    """
    with path.open("rb") as file:
        head = file.read(_EDGE_BYTES)
        if not head.startswith(_ELF):
            return ""
        stat = os.fstat(file.fileno())
        file.seek(max(0, stat.st_size - _EDGE_BYTES))
        digest = hashlib.sha256(head + file.read()).hexdigest()
    return f"{stat.st_size}:{int(stat.st_mtime)}:{digest}"
