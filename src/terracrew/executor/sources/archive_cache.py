"""The archives that a runner's attempts have downloaded, kept for later attempts. The cache is limited in size and in age.

An attempt reads a whole archive once and unpacks it. So an archive can be removed at any time: attempts that have read it do not
need it any more, and other attempts download it again.
"""

import contextlib
import hashlib
import os
import time
from pathlib import Path

MAX_BYTES = 1 << 30
MAX_UNUSED_SECONDS = 30 * 86400.0
MAX_DRAFT_SECONDS = 3600.0
"""A draft that is older was left by a process that died while it wrote it."""


class ArchiveCache:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, sha256: str) -> bytes | None:
        if not sha256.isalnum():
            return None
        file = self._folder / sha256
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest() != sha256:
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # mark it as used, so that others are removed first
        return data

    def put(self, sha256: str, data: bytes) -> None:
        """Store an archive, and evict others if the cache is full."""
        if not sha256.isalnum():
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f".{sha256}.{os.getpid()}"
        draft.write_bytes(data)
        draft.replace(self._folder / sha256)
        self.prune(sha256)

    def prune(self, kept: str = "") -> int:
        """Remove archives that have not been used for long, then the least recently used ones until the rest fits. Returns how many."""
        now, removed, total = time.time(), 0, 0
        found: list[tuple[float, int, Path]] = []
        for file in self._folder.iterdir():
            with contextlib.suppress(OSError):  # another attempt has removed it
                stat = file.stat()
                found.append((stat.st_mtime, stat.st_size, file))
        for used_at, size, file in sorted(found, reverse=True):
            if file.name.startswith("."):
                is_over = now - used_at > MAX_DRAFT_SECONDS
            else:
                total += size
                is_over = file.name != kept and (total > MAX_BYTES or now - used_at > MAX_UNUSED_SECONDS)
                total -= size if is_over else 0
            if is_over:
                with contextlib.suppress(OSError):
                    file.unlink()
                    removed += 1
        return removed
