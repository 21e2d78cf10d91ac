"""The runner's worker token, which the runner replaces regularly, so that a stolen copy stops working at the next replacement.

The runner makes each new token itself and sends the server only its hash, together with the token that is in use. Both are
valid until the new one is used for the first time. The file is written before the server learns of the new token, so that a
crash at any moment leaves a token that works. If it cannot be written, the token is replaced later.

A server that was restored from a backup knows only an earlier token, so the earlier tokens are kept as well. No other server
accepts them.
"""

import hashlib
import logging
import os
import secrets
import time
from pathlib import Path

import msgspec

from terracrew.system import durable

log = logging.getLogger(__name__)

FILE = "worker.token"
PREFIX = "tcw_"
ROTATION_SECONDS = 24 * 3600.0
MAX_EARLIER = 14
"""The number of earlier tokens that are kept for a server that is restored from a backup. With an older backup, only the
token of the settings can still work; otherwise the runner needs a new one."""
_VOLATILE = frozenset({"aufs", "overlay", "ramfs", "tmpfs"})
"""File systems whose content is lost when the container or the machine stops. A token that is kept there would be lost, too."""


class _Kept(msgspec.Struct, frozen=True):
    configured_sha256: str
    """The hash of the token in the runner's settings. A new token there replaces all stored ones."""
    current: str
    since: float
    """When the token in use was first used, in seconds since 1970."""
    next: str = ""
    """The token that replaces the current one as soon as the server has accepted it; empty if there is none."""
    earlier: list[str] = []
    """The tokens that were in use before the current one, the latest first."""


class WorkerToken:
    def __init__(self, directory: Path, configured: str, *, rotates: bool = True) -> None:
        """`configured` is what the settings have: a worker token, or a secret of a service account, which is never replaced."""
        self._path, self._configured = directory / FILE, configured
        self._kept = self._read(configured)
        self.rotates = rotates and configured.startswith(PREFIX) and not is_volatile(directory)

    @property
    def is_worker_token(self) -> bool:
        """Return whether the settings have a worker token, not a secret of a service account."""
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
        """Return the hash of the next token, or an empty string while the current one is not due to be replaced, or cannot be."""
        if not self.rotates or abs(time.time() - self._kept.since) < ROTATION_SECONDS:
            return ""
        if not self._kept.next:
            prepared = msgspec.structs.replace(self._kept, next=PREFIX + secrets.token_urlsafe(32))
            if not self._write(prepared):
                return ""
            self._kept = prepared
        return _digest(self._kept.next)

    def accepted(self, token: str) -> None:
        """Record that the server has accepted this token. If it is the next one, it replaces the current one."""
        kept = self._kept
        if token == kept.next:
            earlier = [kept.current, *kept.earlier][:MAX_EARLIER]
            self._keep(msgspec.structs.replace(kept, current=token, next="", since=time.time(), earlier=earlier))
            log.info("the worker token was replaced; the old one is not valid any more")
        elif token in self.earlier:
            # Somebody may have copied this token while it was in use, so the next exchange replaces it. The later tokens are
            # kept, because the operators may go back from the restored server to the one that was there before.
            others = [each for each in (kept.next, kept.current, *kept.earlier) if each and each != token]
            self._keep(msgspec.structs.replace(kept, current=token, next="", since=0.0, earlier=others[:MAX_EARLIER]))
            log.warning(
                "the server accepts only an earlier worker token, as after a restore from a backup; the token is replaced soon"
            )
        elif self.rotates and not self._path.exists():
            self._write(self._kept)

    def declined(self) -> None:
        """Record that the server does not replace the token: several processes share it."""
        self._keep(msgspec.structs.replace(self._kept, next="", since=time.time()))

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

    def _keep(self, kept: _Kept) -> None:
        """Use these tokens. If they cannot be written, the file has earlier ones, which lead the next process to the same tokens."""
        self._write(kept)
        self._kept = kept

    def _write(self, kept: _Kept) -> bool:
        """Return whether these tokens are on the disk. A full disk must not keep the runner from its server."""
        try:
            durable.write(self._path, msgspec.json.encode(kept))
        except OSError as error:
            log.warning("%s cannot be written, and is written later: %s", self._path, error)
            return False
        return True


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def is_volatile(directory: Path) -> bool:
    place, found = os.path.realpath(directory), ("", "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        point = fields.split()[4].replace("\\040", " ")
        is_above = place == point or place.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(found[0]):
            found = point, rest.split()[0]
    return found[1] in _VOLATILE
