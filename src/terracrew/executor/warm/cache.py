"""What `init` made, kept for later jobs of the same module (ADR 0060). The cache is limited in size and in age.

An entry is one file: a signature and what it signs. It appears under its name only when it is complete, and an attempt reads the
whole file at once, so it can be removed at any time. The key of the signature exists only in the memory of the runner and of its
executors. So an entry of another process, or one that was changed or cut short, is never used. An entry of an earlier runner
process is not used either.
"""

import contextlib
import errno
import hashlib
import hmac
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from terracrew.executor.engines.contract import InitFile
from terracrew.protocol.start import WarmSettings

MIN_FREE_BYTES = 128 << 20
MIN_FREE_RATIO = 0.1
"""On a small disk, this ratio of its size has to be free instead of MIN_FREE_BYTES. A runner without half of it takes no jobs."""
MAX_DRAFT_SECONDS = 3600.0
"""A draft that is older was left by a process that died while it wrote it."""
_MAC_BYTES = hashlib.sha256().digest_size
_log = logging.getLogger("terracrew.executor")


class KeptInit(msgspec.Struct, frozen=True):
    number: int
    """The number of the job that ran `init`."""
    made_at: float
    """When, in seconds since 1970."""
    files: list[InitFile]


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(KeptInit).decode


class WarmCache:
    def __init__(self, settings: WarmSettings) -> None:
        self._settings, self._folder = settings, Path(settings.directory)

    def name_of(self, read: Iterable[str | bytes]) -> str:
        """Return the name of the entry for an `init` that reads all of this. Nothing can be concluded from the name itself."""
        digest = hmac.new(self._settings.secret, b"name", hashlib.sha256)
        for each in read:
            content = each.encode(errors="surrogateescape") if isinstance(each, str) else each
            digest.update(b"%d:" % len(content))
            digest.update(content)
        return digest.hexdigest()

    def get(self, name: str) -> KeptInit | None:
        """Return an entry that this runner made, and that is young enough; None if there is none."""
        file = self._folder / name
        if (data := self._read(file)) is None:
            return None
        signature, content = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not hmac.compare_digest(signature, self._signature(name, content)):
            _log.warning("a kept workspace is not what was kept, and is not used: %s", name)
            self.remove(name)
            return None
        entry = _decode(content)
        if not 0 <= time.time() - entry.made_at <= self._settings.max_age_seconds:
            self.remove(name)
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # mark it as used, so that others are removed first
        return entry

    def put(self, name: str, entry: KeptInit) -> bool:
        """Keep an entry, and remove others if the cache is full. Returns False if there is no room for it.

        A disk that is almost full loses the whole cache: jobs need the room more.
        """
        content = _encode(entry)
        if len(content) > self._settings.max_bytes:
            return False
        draft = self._folder / f".{secrets.token_hex(8)}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._has_room(len(content)):
                self.clear()
                return False
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
            with open(descriptor, "wb") as file:
                file.write(self._signature(name, content))
                file.write(content)
            draft.replace(self._folder / name)
        except OSError as error:
            _log.warning("the workspace cannot be kept: %s", error)
            with contextlib.suppress(OSError):
                draft.unlink()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.clear()
            return False
        self.prune(name)
        return True

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()

    def clear(self) -> None:
        """Remove every entry."""
        for _, _, file in self._entries():
            self.remove(file.name)

    def prune(self, kept: str = "") -> None:
        """Remove what is too old, then the least recently used entries until the rest fits."""
        now, total = time.time(), 0
        for used_at, size, file in sorted(self._entries(), reverse=True):
            if file.name.startswith("."):
                is_over = now - used_at > MAX_DRAFT_SECONDS
            else:
                is_old = now - used_at > self._settings.max_age_seconds
                is_over = file.name != kept and (is_old or total + size > self._settings.max_bytes)
                total += 0 if is_over else size
            if is_over:
                self.remove(file.name)

    def _read(self, file: Path) -> bytes | None:
        """Return the content of a file; None for anything else, which a job without isolation may have put there."""
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > self._settings.max_bytes + _MAC_BYTES:
            os.close(descriptor)
            return None
        with open(descriptor, "rb") as opened:
            return opened.read()

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Return when each file was used last, its size and its path."""
        found: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another attempt has removed it
                    about = entry.stat(follow_symlinks=False)
                    found.append((about.st_mtime, about.st_size, Path(entry.path)))
        return found

    def _has_room(self, size: int) -> bool:
        disk = os.statvfs(self._folder)
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        return free - size >= min(MIN_FREE_BYTES, total * MIN_FREE_RATIO)

    def _signature(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self._settings.secret, name.encode() + b"\0" + content, "sha256")
