"""Reads which hooks the operator of a runner has approved: the files of a directory, by their content."""

import hashlib
import os
import stat
from pathlib import Path

from terracrew.protocol.spec import ApprovedHooks

MAX_HOOK_BYTES = 1 << 20
"""A larger file in the directory is no hook."""
_MAX_FILES = 10_000


def read(directory: str) -> ApprovedHooks:
    """Return the approved hooks. Without a directory, or with one that cannot be read, there are none."""
    if not directory:
        return ApprovedHooks("")
    try:
        paths = sorted(Path(directory).iterdir())[:_MAX_FILES]
    except OSError:
        return ApprovedHooks(directory)
    found = {digest for path in paths for digest in _digests(path)}
    return ApprovedHooks(directory, sorted(found))


def _digests(path: Path) -> list[str]:
    """Return the digests of the hooks that a file approves. The last line break of a command, written as JSON, does not count."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_HOOK_BYTES:
                return []
            content = file.read().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    except OSError:
        return []
    texts = [content, content.rstrip(b"\n")] if content.startswith(b"[") else [content]
    return [hashlib.sha256(text).hexdigest() for text in texts]
