"""The few things of an attempt that go by HTTP: archives, states and plans, too large for the hub, and tokens for clouds."""

import asyncio
import hashlib
import io
import os
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from terracrew import errors
from terracrew.client.hub import LOOPBACK, Backoff
from terracrew.errors import (
    Forbidden,
    Invalid,
    NotFound,
    TerracrewError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from terracrew.executor.control import Control

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

MAX_DOWNLOAD = 512 << 20
_CHUNK = 1 << 20
_TIMEOUT = 60.0
_RETRIED = frozenset({408, 425, 429})


class Answer(NamedTuple):
    headers: Mapping[str, str]
    body: bytes


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""


class Transfer:
    """What is under one attempt's address, with its hub credential; a server that is away is tried again for ever."""

    def __init__(self, server_url: str, credential: str, job_id: str, attempt: int, control: Control) -> None:
        self._base = f"{server_url.rstrip('/')}/runnerhub/attempts/{job_id}/{attempt}"
        self._credential, self._control = credential, control

    async def get(self, name: str) -> Answer:
        return await self._persist("GET", name, None, {})

    async def put(self, name: str, file: Path, headers: Mapping[str, str]) -> None:
        await self._persist("PUT", name, file, headers, is_insistent=True)

    async def upload(self, name: str, file: Path) -> None:
        """Like `put`, of what is of no use once the attempt is to stop."""
        await self._persist("PUT", name, file, {})

    async def download(self, name: str, to: Path, *, most: int) -> str:
        """Into a file, however large; the SHA-256 of what came."""
        return (await self._persist("GET", name, None, {}, into=to, most=most)).body.decode()

    async def post(self, name: str, body: object) -> Answer:
        return await self._persist("POST", name, msgspec.json.encode(body), {"Content-Type": "application/json"})

    async def _persist(
        self,
        method: str,
        name: str,
        content: Path | bytes | None,
        headers: Mapping[str, str],
        *,
        into: Path | None = None,
        most: int = MAX_DOWNLOAD,
        is_insistent: bool = False,
    ) -> Answer:
        await asyncio.sleep(0)  # see `headstart`: there may be no loop yet
        backoff = Backoff()
        while True:
            try:
                return await asyncio.to_thread(self._ask, method, f"{self._base}/{name}", content, headers, into, most)
            except Unreachable:
                if self._control.is_stopping and not is_insistent:
                    raise
                await asyncio.sleep(backoff.next())

    def _ask(
        self,
        method: str,
        url: str,
        content: Path | bytes | None,
        headers: Mapping[str, str],
        into: Path | None,
        most: int,
    ) -> Answer:
        # Imported here: a few jobs in a hundred need it, and every one would carry its 3 MB.
        import urllib3

        proxy = _proxy(url)
        headers = {"Authorization": f"Bearer {self._credential}", **headers}
        body = content.open("rb") if isinstance(content, Path) else content
        if isinstance(body, io.BufferedReader):
            headers["Content-Length"] = str(os.fstat(body.fileno()).st_size)
        try:
            with urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager() as pool:
                answer = pool.request(
                    method,
                    url,
                    body=body,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=10, read=_TIMEOUT),
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
                if into and answer.status < 300:
                    received = _save(answer, into, most + 1)
                    size = into.stat().st_size
                else:
                    received = answer.read(most + 1)
                    size = len(received)
        except (urllib3.exceptions.HTTPError, OSError, HTTPException) as error:
            raise Unreachable(f"{url} cannot be reached: {error}") from error
        finally:
            if isinstance(body, io.BufferedReader):
                body.close()
        if size > most:
            raise TooLarge(f"{url} is larger than {most >> 20} MiB")
        if answer.status in _RETRIED or answer.status >= 500:
            raise Unreachable(f"{url} answered {answer.status}")
        if answer.status >= 300:
            raise _error(answer.status, url, received)
        return Answer(answer.headers, received)


def _save(answer: "BaseHTTPResponse", to: Path, most: int) -> bytes:
    """Write what comes into a file of ours; its SHA-256 in hexadecimal digits."""
    digest, size = hashlib.sha256(), 0
    handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb", buffering=0) as file:
        while size < most and (chunk := answer.read(min(_CHUNK, most - size))):
            digest.update(chunk)
            size += len(chunk)
            try:
                while chunk:
                    chunk = chunk[file.write(chunk) :]
            except OSError as error:  # not the server's fault, so not to be tried for ever
                raise Unavailable(f"{to} cannot be written: {error.strerror}") from error
    return digest.hexdigest().encode()


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or "") or parts.hostname in LOOPBACK:
        return None
    return getproxies().get(parts.scheme)


def _error(status: int, url: str, content: bytes) -> TerracrewError:
    """The error that the server meant, by its code where it gave one."""
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except ValueError:
        problem = _Problem()
    by_status = {kind.status: kind for kind in (NotFound, Forbidden, Unauthenticated)}
    kind = errors.tree().get(problem.code) or by_status.get(status, Invalid)
    return kind(problem.detail or f"{url} answered {status}")
