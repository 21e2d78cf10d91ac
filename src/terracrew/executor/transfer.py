"""The few things of an attempt that are go by HTTP: source archives and states, too large for the hub, and tokens for clouds."""

import asyncio
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from terracrew import errors
from terracrew.client.hub import LOOPBACK, Backoff
from terracrew.errors import Forbidden, Invalid, NotFound, TerracrewError, TooLarge, Unauthenticated, Unreachable
from terracrew.executor.control import Control

MAX_DOWNLOAD = 512 << 20
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
        await self._persist("PUT", name, file, headers)

    async def post(self, name: str, body: object) -> Answer:
        return await self._persist("POST", name, msgspec.json.encode(body), {"Content-Type": "application/json"})

    async def _persist(
        self, method: str, name: str, content: Path | bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        await asyncio.sleep(0)  # see `headstart`: there may be no loop yet
        backoff = Backoff()
        while True:
            try:
                return await asyncio.to_thread(self._ask, method, f"{self._base}/{name}", content, headers)
            except Unreachable:
                if method != "PUT" and self._control.is_stopping:
                    raise
                await asyncio.sleep(backoff.next())

    def _ask(self, method: str, url: str, content: Path | bytes | None, headers: Mapping[str, str]) -> Answer:
        # Imported here: a few jobs in a hundred need it, and every one would carry its 3 MB.
        import urllib3

        body = content.read_bytes() if isinstance(content, Path) else content
        proxy = _proxy(url)
        try:
            with urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager() as pool:
                answer = pool.request(
                    method,
                    url,
                    body=body,
                    headers={"Authorization": f"Bearer {self._credential}", **headers},
                    timeout=urllib3.Timeout(connect=10, read=_TIMEOUT),
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
                received = answer.read(MAX_DOWNLOAD + 1)
        except (urllib3.exceptions.HTTPError, OSError, HTTPException) as error:
            raise Unreachable(f"{url} cannot be reached: {error}") from error
        if len(received) > MAX_DOWNLOAD:
            raise TooLarge(f"{url} is larger than {MAX_DOWNLOAD >> 20} MiB")
        if answer.status in _RETRIED or answer.status >= 500:
            raise Unreachable(f"{url} answered {answer.status}")
        if answer.status >= 300:
            raise _error(answer.status, url, received)
        return Answer(answer.headers, received)


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
