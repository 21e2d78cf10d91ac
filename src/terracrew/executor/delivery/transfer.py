"""Transfers by HTTP what is too large for the hub (archives, states and plans), and requests cloud tokens."""

import asyncio
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from urllib3 import PoolManager

from terracrew.backoff import Backoff
from terracrew.client import transport
from terracrew.errors import ForeignAnswer, Incomplete, Unreachable
from terracrew.executor.control import Control
from terracrew.executor.delivery import exchange
from terracrew.executor.delivery.exchange import Answer, ConnectionLog, FilePart, Request
from terracrew.protocol.transfers import HEADER, PART_BYTES, UploadStaged, UploadWanted

_JSON = {"Content-Type": "application/json"}


class Transfer:
    """Requests below the address of one attempt, made with its hub credential.

    They are retried forever while the server is unavailable, or while something other than our server answers.
    """

    def __init__(
        self,
        server_url: str,
        credential: str,
        job_id: str,
        attempt: int,
        control: Control,
        connection_log: ConnectionLog,
    ) -> None:
        self._base = f"{server_url.rstrip('/')}/runnerhub/attempts/{job_id}/{attempt}"
        self._credential, self._control, self._connection_log = credential, control, connection_log

    async def get(self, name: str) -> Answer:
        return await self._unless_stopping(Request("GET", name))

    async def put(self, name: str, file: Path, headers: Mapping[str, str]) -> None:
        await self._send(name, file, headers, is_insistent=True)

    async def upload(self, name: str, file: Path) -> None:
        """Upload a file like `put`, but give up when the attempt must stop, because the file is useless then."""
        await self._send(name, file, {}, is_insistent=False)

    async def download(self, name: str, to: Path, *, most: int) -> str:
        """Download to a file, up to `most` bytes, and return the SHA-256 of what arrived."""
        return (await self._unless_stopping(Request("GET", name, into=to, max_bytes=most))).body.decode()

    async def post(self, name: str, body: object) -> Answer:
        return await self._alone(Request("POST", name, msgspec.json.encode(body), _JSON))

    async def _unless_stopping(self, request: Request) -> Answer:
        """Get an answer, or raise Unreachable as soon as the attempt must stop. A server that hangs would delay it for a minute."""
        asking = asyncio.ensure_future(self._alone(request))
        stopping = asyncio.ensure_future(self._control.stopping())
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
            stopping.cancel()
        raise Unreachable(f"the request for {request.name} was given up, because the attempt must stop")

    async def _alone(self, request: Request) -> Answer:
        with transport.pool(self._base) as pool:
            return await self._persist(pool, request, is_insistent=False)

    async def _send(self, name: str, file: Path, headers: Mapping[str, str], *, is_insistent: bool) -> None:
        size = os.stat(file).st_size
        what = f"the upload of {name} ({_megabytes(size)})"
        with transport.pool(self._base) as pool:
            if size <= PART_BYTES:
                whole = Request("PUT", name, file, headers)
                await self._persist(pool, whole, is_insistent=is_insistent, what=what)
                return
            wanted = UploadWanted(name, await asyncio.to_thread(_sha256, file), size)
            backoff = Backoff()
            while True:
                try:
                    await self._send_in_parts(pool, file, wanted, headers, is_insistent=is_insistent, what=what)
                except Incomplete:  # the staged parts were removed in the meantime, so they are staged again
                    await asyncio.sleep(backoff.next())
                    continue
                return

    async def _send_in_parts(
        self,
        pool: PoolManager,
        file: Path,
        wanted: UploadWanted,
        headers: Mapping[str, str],
        *,
        is_insistent: bool,
        what: str,
    ) -> None:
        stage = Request("PUT", "uploads", msgspec.json.encode(wanted), _JSON)
        answer = await self._persist(pool, stage, is_insistent=is_insistent, what=what)
        staged = msgspec.json.decode(answer.body, type=UploadStaged)
        for index in staged.missing:
            part = FilePart(file, index * staged.part_bytes, staged.part_bytes)
            request = Request("PUT", f"uploads/{staged.id}/{index}", part)
            await self._persist(pool, request, is_insistent=is_insistent, what=what)
        use = Request("PUT", wanted.target, b"", {**headers, HEADER: staged.id})
        await self._persist(pool, use, is_insistent=is_insistent, what=what)

    async def _persist(self, pool: PoolManager, request: Request, *, is_insistent: bool, what: str = "") -> Answer:
        backoff, what = Backoff(), what or f"the request for {request.name}"
        while True:
            try:
                answer = await asyncio.to_thread(exchange.ask, pool, self._base, self._credential, request)
            except Unreachable as error:
                if self._control.is_stopping and not is_insistent:
                    raise
                if isinstance(error, ForeignAnswer):
                    self._connection_log.report(what, error)
                await asyncio.sleep(backoff.next())
            else:
                self._connection_log.over(what)
                return answer


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size:,} bytes"
