"""Fetches a file of a release from the runner's own server, and verifies it with the runner's own key.

A fetch that was interrupted continues where it was. What arrives is not trusted before it is verified:
its size, its hash, the signature by the key of the settings, and the comment of the signature, which names version and file. So neither
a server that was taken over nor somebody in between can have a runner install something, or an older release under a newer name.
"""

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from urllib3.exceptions import HTTPError

from terracrew.backoff import Backoff
from terracrew.client import problems, transport
from terracrew.client.address import segment
from terracrew.errors import Invalid, TerracrewError, Unreachable
from terracrew.protocol.messages import ArtifactRef
from terracrew.releases import minisign
from terracrew.runner.disk import MIN_FREE_BYTES

PATH = "/runnerhub/releases/{version}/{name}"
RETRY_SECONDS = 120.0
"""How long a fetch is tried again without any progress, for example while the server restarts."""
_REQUEST_SECONDS = 30.0
_READ_BYTES = 1 << 18
_UNPACKED_RATIO = 6
"""A wheel takes about this many times its size when it was unpacked and its modules were compiled."""
log = logging.getLogger(__name__)


def require_room(folder: Path, artifacts: list[ArtifactRef]) -> None:
    """Raise Invalid if there is no room for these files and for what is made of them."""
    needed = sum(each.size_bytes for each in artifacts) * (1 + _UNPACKED_RATIO) + MIN_FREE_BYTES
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise Invalid(
            f"{folder} has {free >> 20} MB left, and {(needed >> 20) + 1} MB are needed: make room, and update it again"
        )


class ArtifactFetcher:
    """Fetches into one folder. `token` returns the runner's access token."""

    def __init__(
        self, server_url: str, token: Callable[[], str], folder: Path, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._server_url, self._token, self._folder = server_url.rstrip("/"), token, folder
        self._retry_seconds = retry_seconds
        self.is_canceled = False
        """Set by another thread to end a fetch."""

    def fetch(self, version: str, artifact: ArtifactRef) -> Path:
        """Return the file, complete but not verified. Raises the error after which there was no progress for too long."""
        minisign.release_comment(version, artifact.name)  # it refuses names that would lead to another folder
        path = self._folder / artifact.name
        delays, progress_at, size = Backoff(), time.monotonic(), -1
        while (has := _size(path)) < artifact.size_bytes:
            if has > size:
                size, progress_at = has, time.monotonic()
                delays.reset()
            try:
                self._continue(version, artifact, path, has)
                continue
            except TerracrewError as error:
                left = progress_at + self._retry_seconds - time.monotonic()
                if not error.is_transient or (left <= 0 and _size(path) <= size):
                    raise
                log.info("%s is fetched again: %s", artifact.name, error)
            self._pause(delays.next())
        return path

    def progress(self, artifact: ArtifactRef) -> str:
        """Return how much of a file has arrived, in words."""
        return (
            f"{_size(self._folder / artifact.name) / 1e6:.1f} of {artifact.size_bytes / 1e6:.1f} MB of {artifact.name}"
        )

    def _continue(self, version: str, artifact: ArtifactRef, path: Path, has: int) -> None:
        """Fetch from here on, and append it. Never more than the file is said to have."""
        url = self._server_url + PATH.format(version=segment(version), name=segment(artifact.name))
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Range": f"bytes={has}-",
            "If-Range": f'"{artifact.sha256}"',
        }
        try:
            answer = transport.pool(url).request(
                "GET",
                url,
                headers=headers,
                timeout=_REQUEST_SECONDS,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            with contextlib.closing(answer):
                if answer.status not in (200, 206):
                    raise problems.from_response(answer.status, answer.headers, answer.read(1 << 16), f"GET {url}")
                flags = (
                    os.O_WRONLY
                    | os.O_CREAT
                    | os.O_CLOEXEC
                    | os.O_NOFOLLOW
                    | (os.O_TRUNC if answer.status == 200 else os.O_APPEND)
                )
                with open(os.open(path, flags, 0o600), "ab") as file:
                    left = artifact.size_bytes - (0 if answer.status == 200 else has)
                    while left > 0 and (piece := answer.read1(min(_READ_BYTES, left))):
                        if self.is_canceled:
                            raise Invalid("the update was canceled")
                        file.write(piece)
                        left -= len(piece)
        except (HTTPError, ConnectionError, TimeoutError) as error:
            raise Unreachable(f"{self._server_url} cannot be reached: {error}") from error
        if _size(path) <= has:
            raise Unreachable(f"{self._server_url} sent nothing of {artifact.name}")

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.is_canceled:
                raise Invalid("the update was canceled")
            time.sleep(0.05)


def verify(path: Path, version: str, artifact: ArtifactRef, key: minisign.PublicKey) -> None:
    """Raise Invalid unless this is the file that the release says, signed by the key as this file of this version. A file that is not
    what it should be is removed, so that it is fetched again."""
    try:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(_READ_BYTES):
                digest.update(piece)
        if digest.hexdigest() != artifact.sha256:
            raise Invalid(f"{artifact.name} has another hash than the release says")
        try:
            minisign.verify_release_file(key, path, artifact.signature, version, artifact.name)
        except Invalid as error:
            raise Invalid(f"{artifact.name} is not what the key of this runner signed: {error.message}") from error
    except Invalid:
        path.unlink(missing_ok=True)
        raise


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
