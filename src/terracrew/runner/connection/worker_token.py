"""The runner's worker token, which it replaces by itself: a copy that somebody made is worth nothing after the next change.

The runner makes each new token itself and tells the server only its hash, with the token that is in use. Both are good until
the new one is used for the first time. The file is written before the server hears of the new one, so that a crash at any
moment leaves a token that works. A server that was restored from a backup knows an earlier token only, so these are kept, too:
they are worth nothing anywhere else.
"""

import hashlib
import logging
import os
import secrets
import time
from pathlib import Path

import msgspec

from terracrew import durable

log = logging.getLogger(__name__)

FILE = "worker.token"
PREFIX = "tcw_"
ROTATION_SECONDS = 24 * 3600.0
MAX_EARLIER = 14
"""Tokens that are kept for a server that was restored: a backup that is older needs the token of the settings, or a new one."""
_VOLATILE = frozenset({"aufs", "overlay", "ramfs", "tmpfs"})
"""File systems that do not outlive a container or the machine: a token that is kept there would be lost with them."""


class _Kept(msgspec.Struct, frozen=True):
    configured_sha256: str
    """The hash of the token in the runner's settings. A new token there replaces all stored ones."""
    current: str
    since: float
    """When the token in use was first used, in seconds since 1970."""
    next: str = ""
    """Replaces the current one as soon as the server has accepted it."""
    earlier: list[str] = []
    """The tokens that were in use before the current one, the latest first."""


class WorkerToken:
    def __init__(self, directory: Path, configured: str, *, rotates: bool = True) -> None:
        """`configured` is what the settings have: a worker token, or a secret of a service account, which stays as it is."""
        self._path, self._configured = directory / FILE, configured
        self._kept = self._read(configured)
        self.rotates = rotates and configured.startswith(PREFIX) and not _is_volatile(directory)

    @property
    def is_worker_token(self) -> bool:
        """Tell a worker token from the secret of a service account."""
        return self._configured.startswith(PREFIX)

    @property
    def candidates(self) -> list[str]:
        """Tokens to present to the server, until it accepts one."""
        return [each for each in (self._kept.next, self._kept.current) if each]

    @property
    def earlier(self) -> list[str]:
        """Tokens to present to a server that accepts none of the candidates: it may have been restored from a backup."""
        known = [*self._kept.earlier, self._configured]
        return [each for each in dict.fromkeys(known) if each not in self.candidates]

    def next_sha256(self) -> str:
        """Return the hash of the token that is to follow; empty while it is not time for another one."""
        if not self.rotates or abs(time.time() - self._kept.since) < ROTATION_SECONDS:
            return ""
        if not self._kept.next:
            self._write(msgspec.structs.replace(self._kept, next=PREFIX + secrets.token_urlsafe(32)))
        return _digest(self._kept.next)

    def accepted(self, token: str) -> None:
        """Record that the server has accepted this token. If it is the next one, it replaces the current one."""
        kept = self._kept
        if token == kept.next:
            earlier = [kept.current, *kept.earlier][:MAX_EARLIER]
            self._write(msgspec.structs.replace(kept, current=token, next="", since=time.time(), earlier=earlier))
            log.info("the worker token was replaced; the old one is not valid any more")
        elif token in self.earlier:
            # Others may have seen this one while it was in use, so the next exchange replaces it.
            # The ones after it stay: the server that was restored may be given up for the one that was there before.
            others = [each for each in (kept.next, kept.current, *kept.earlier) if each and each != token]
            self._write(msgspec.structs.replace(kept, current=token, next="", since=0.0, earlier=others[:MAX_EARLIER]))
            log.warning("the server accepts an earlier worker token only (it was restored?); it is replaced soon")
        elif self.rotates and not self._path.exists():
            self._write(self._kept)

    def declined(self) -> None:
        """The server does not replace the token: several processes share it, or the server is of an earlier version."""
        self._write(msgspec.structs.replace(self._kept, next="", since=time.time()))

    def _read(self, configured: str) -> _Kept:
        fresh = _Kept(_digest(configured), configured, time.time())
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return fresh
        except (OSError, ValueError) as error:
            log.error("%s cannot be read (%s): using the worker token of the settings", self._path, error)
            return fresh
        return kept if kept.configured_sha256 == fresh.configured_sha256 else fresh

    def _write(self, kept: _Kept) -> None:
        durable.write(self._path, msgspec.json.encode(kept))
        self._kept = kept


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_volatile(directory: Path) -> bool:
    place, found = os.path.realpath(directory), ("", "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        point = fields.split()[4].replace("\\040", " ")
        is_above = place == point or place.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(found[0]):
            found = point, rest.split()[0]
    return found[1] in _VOLATILE
