"""One HTTP request of an attempt and its answer, which is accepted only if our server sent it."""

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from http import client as http_client
from pathlib import Path
from typing import NamedTuple

import urllib3
from urllib3 import BaseHTTPResponse, PoolManager

from terracrew.client import problems
from terracrew.errors import ForeignAnswer, RateLimited, TerracrewError, TooLarge, Unavailable, Unreachable

MAX_DOWNLOAD_BYTES = 512 << 20
_CHUNK_BYTES = 1 << 20
_READ_SECONDS = 60.0
_OURS = ("application/octet-stream", "application/gzip", "application/json")
"""The content types of our answers. A login page with status 200 has another one."""


REPEAT_SECONDS = 3600.0
"""The same problem is reported again after this time."""
_logger = logging.getLogger("terracrew.executor")


class Answer(NamedTuple):
    headers: Mapping[str, str]
    body: bytes


class FilePart(NamedTuple):
    """A piece of a file, as the body of a request, so that the whole file is never in memory."""

    path: Path
    start: int
    size: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.size)


class Request(NamedTuple):
    method: str
    name: str
    body: bytes | Path | FilePart | None = None
    headers: Mapping[str, str] = {}
    into: Path | None = None
    max_bytes: int = MAX_DOWNLOAD_BYTES


def ask(pool: PoolManager, base: str, credential: str, request: Request) -> Answer:
    """Send a request once. After Unreachable, the caller should retry; every other error comes from the server and is final."""
    url = f"{base}/{request.name}"
    headers = {**({"Authorization": f"Bearer {credential}"} if credential else {}), **request.headers}
    content = request.body.read() if isinstance(request.body, FilePart) else request.body
    body = content.open("rb") if isinstance(content, Path) else content
    if isinstance(content, Path):
        headers["Content-Length"] = str(content.stat().st_size)
    try:
        answer = pool.request(
            request.method,
            url,
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(connect=10, read=_READ_SECONDS),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            return _received(answer, request, f"{request.method} {url}")
        finally:
            answer.release_conn()
    except (urllib3.exceptions.HTTPError, OSError, http_client.HTTPException) as error:
        raise Unreachable(f"{url} cannot be reached: {error}") from error
    finally:
        if body is not None and not isinstance(body, bytes):
            body.close()


def _received(answer: BaseHTTPResponse, request: Request, asked: str) -> Answer:
    is_ours = answer.status == 204 or (answer.status == 200 and _content_type(answer) in _OURS)
    if not is_ours:
        raise _error(answer, asked)
    if request.into is None:
        received = answer.read(request.max_bytes + 1)
        size = len(received)
    else:
        received = _save(answer, request.into, request.max_bytes + 1)
        size = request.into.stat().st_size
    if size > request.max_bytes:
        raise TooLarge(f"{request.name} is larger than {request.max_bytes >> 20} MiB")
    return Answer(answer.headers, received)


def _error(answer: BaseHTTPResponse, asked: str) -> TerracrewError:
    """Return the error that our server sent. An answer without a problem code of ours came from another program, so it is not final."""
    own = problems.own(answer.headers, answer.read(_CHUNK_BYTES))
    if own is None:
        return problems.foreign(answer.status, answer.headers, asked)
    if isinstance(own, RateLimited | Unavailable) or answer.status >= 500:
        return Unreachable(f"{asked} was answered {answer.status}: {own.message}")
    return own


def _content_type(answer: BaseHTTPResponse) -> str:
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _save(answer: BaseHTTPResponse, to: Path, max_bytes: int) -> bytes:
    """Write the body to a file, and return its SHA-256 in hexadecimal digits."""
    digest, size = hashlib.sha256(), 0
    handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb", buffering=0) as file:
        while size < max_bytes and (chunk := answer.read(min(_CHUNK_BYTES, max_bytes - size))):
            digest.update(chunk)
            size += len(chunk)
            try:
                while chunk:
                    chunk = chunk[file.write(chunk) :]
            except OSError as error:  # a local error, so it is not retried forever
                raise Unavailable(f"{to} cannot be written: {error.strerror}") from error
    return digest.hexdigest().encode()


class ConnectionLog:
    """Writes problems to the executor's own log, and also to the job's log as long as that accepts lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._reported_at: dict[tuple[str, int], float] = {}
        self._unresolved: set[str] = set()

    def report(self, what: str, error: ForeignAnswer) -> None:
        """Report that `what` does not succeed. Each status of an answer is a problem of its own, which is reported once."""
        problem, now = (what, int(error.details.get("answered", 0))), time.monotonic()
        self._unresolved.add(what)
        if now - self._reported_at.get(problem, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return
        self._reported_at[problem] = now
        line = f"{what} does not succeed and is tried again: {error.message}"
        _logger.warning(line)
        with contextlib.suppress(OSError):  # a full disk is reported separately
            self._say(line[0].upper() + line[1:])

    def over(self, what: str) -> None:
        if what in self._unresolved:
            self._unresolved.discard(what)
            _logger.warning("%s has succeeded", what)
