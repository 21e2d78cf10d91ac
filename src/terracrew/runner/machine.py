"""Identifies the machine that the runner runs on, so that the server notices when an instance moves to another one."""

import hashlib
from pathlib import Path

ID_FILE = Path("/etc/machine-id")
_PURPOSE = b"terracrew runner machine\n"
"""What is hashed with the id, because the id itself must not leave the machine (machine-id(5))."""


def digest() -> str:
    """Return a digest of the machine's id; an empty text if the machine, or the container, has none."""
    try:
        found = ID_FILE.read_bytes().strip()
    except OSError:
        return ""
    is_known = found and found != b"uninitialized"
    return hashlib.sha256(_PURPOSE + found).hexdigest()[:32] if is_known else ""
