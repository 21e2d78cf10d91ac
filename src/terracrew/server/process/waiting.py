"""Waits at the start of a server until database and object store answer. Meanwhile it logs why, and answers requests with 503."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from terracrew import backoff
from terracrew.errors import Unavailable
from terracrew.logging import get_logger

PAUSE_SECONDS = 1.0
LOG_EVERY_SECONDS = 60.0
REQUEST_SECONDS = 5.0
BACKLOG_CONNECTIONS = 4096
"""How many connections may wait to be accepted. The kernel's limit may be lower (`net.core.somaxconn`)."""
_BODY = (
    b'{"type":"about:blank","title":"Unavailable","status":503,"code":"unavailable",'
    b'"detail":"this server waits for its database or its object store"}'
)
_ALIVE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 2\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)
T = TypeVar("T")
log = get_logger("terracrew.server")


async def until_answering(listener: socket.socket, build: Callable[[], Awaitable[T]]) -> T:
    """Build the server, and try again while the database or the object store cannot be reached. Every other error ends the start."""
    try:
        return await build()
    except Unavailable as error:
        if not _is_away(error):
            raise
        reason = error.message
    async with _answering(listener):
        logged_at = float("-inf")
        while True:
            if time.monotonic() - logged_at >= LOG_EVERY_SECONDS:
                log.warning("this server waits for what does not answer", reason=reason)
                logged_at = time.monotonic()
            await asyncio.sleep(backoff.jittered(PAUSE_SECONDS))
            try:
                built = await build()
            except Unavailable as error:
                if not _is_away(error):
                    raise
                reason = error.message
            else:
                log.info("what this server waited for answers")
                return built


def _is_away(error: Unavailable) -> bool:
    """Return whether to wait. A wrong password, or a database or bucket that does not exist, would not correct itself."""
    return bool(error.details.get("is_away") or error.details.get("retry_after"))


@contextlib.asynccontextmanager
async def _answering(listener: socket.socket) -> AsyncGenerator[None]:
    """Tell a load balancer that this process is alive but not ready. Later connections wait in the listener's queue."""
    server = await asyncio.start_server(_answer, sock=listener.dup(), backlog=BACKLOG_CONNECTIONS)
    try:
        yield
    finally:
        server.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(REQUEST_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].partition(b"?")[0] if head.count(b" ") > 1 else b""
            writer.write(_ALIVE if path == b"/healthz" else _UNAVAILABLE)
            await writer.drain()
    writer.close()
