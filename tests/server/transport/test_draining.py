"""A server that stops answers what is on its way over connections that it has accepted, and leaves all others to its successor."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from terracrew.server.process.serve import ClosingUvicorn
from terracrew.server.transport import http
from terracrew.server.transport.connections import Connections
from terracrew.server.transport.http import LimitedConfig
from terracrew.server.transport.keepalive import HubWebSocket

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET /runnerhub HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Stoppable:
    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.closing = asyncio.Event()
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        self.is_asked.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def connect(self) -> Streams:
        return await asyncio.open_connection(*self.listener.getsockname())

    async def connected(self) -> Streams:
        """Open a connection that the server has accepted: it has answered another one that came later."""
        streams = await self.connect()
        other = await self.connect()
        await ask(other)
        other[1].close()
        return streams


async def ask(streams: Streams, request: bytes = REQUEST) -> str:
    """Return the head of the answer, in lower case."""
    streams[1].write(request)
    head = await asyncio.wait_for(streams[0].readuntil(b"\r\n\r\n"), 10)
    if b" 200 " in head:
        assert await streams[0].readexactly(2) == b"ok"
    return head.decode().lower()


@asynccontextmanager
async def serving(monkeypatch: pytest.MonkeyPatch, drain_seconds: float = 30.0) -> AsyncGenerator[Stoppable]:
    monkeypatch.setattr(http, "DRAIN_SECONDS", drain_seconds)
    made, table = Stoppable(), Connections(10, 10)
    config = LimitedConfig(
        made.answer,
        table,
        interface="asgi3",
        ws=HubWebSocket,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=30,
    )
    web = ClosingUvicorn(config, None, made.closing, table.drain)
    running = asyncio.create_task(web.serve([made.listener.dup()]))
    try:
        yield made
        made.closing.set()
        await asyncio.wait_for(running, 10)
    finally:
        running.cancel()
        made.listener.close()


async def stop(server: Stoppable) -> None:
    """Tell the server to stop, and wait until it accepts nothing more."""
    server.closing.set()
    for _ in range(5):
        await asyncio.sleep(0.01)


async def test_the_first_request_of_an_accepted_connection_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection was closed, and the client read `EOF` where it expected the answer to its request."""
    async with serving(monkeypatch) as server:
        streams = await server.connected()
        await stop(server)
        assert "connection: close" in await ask(streams)
        assert await streams[0].read() == b""


async def test_a_request_over_a_kept_connection_is_answered_and_is_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(monkeypatch) as server:
        streams = await server.connect()
        assert "connection: close" not in await ask(streams)
        await stop(server)
        assert "connection: close" in await ask(streams)
        assert await streams[0].read() == b""


async def test_a_request_whose_head_is_half_there_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch, drain_seconds=0.05) as server:
        streams = await server.connected()
        streams[1].write(REQUEST[:20])
        await asyncio.sleep(0.01)
        await stop(server)
        await asyncio.sleep(0.1)
        assert "connection: close" in await ask(streams, REQUEST[20:])


async def test_a_request_that_is_being_answered_ends_with_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch) as server:
        server.may_answer.clear()
        streams = await server.connect()
        asking = asyncio.create_task(ask(streams))
        await server.is_asked.wait()
        await stop(server)
        server.may_answer.set()
        assert "connection: close" in await asking


async def test_a_connection_without_a_request_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch, drain_seconds=0.05) as server:
        fresh, kept = await server.connected(), await server.connect()
        await ask(kept)
        server.closing.set()
        for streams in (fresh, kept):
            assert await asyncio.wait_for(streams[0].read(), 10) == b""


async def test_a_websocket_is_refused_so_that_its_client_connects_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch) as server:
        streams = await server.connected()
        await stop(server)
        assert "503 service unavailable" in await ask(streams, UPGRADE)


async def test_a_connection_that_is_not_accepted_waits_for_the_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch) as server:
        _, accepted = await server.connected()
        accepted.close()
        await stop(server)
        streams = await server.connect()
        asking = asyncio.create_task(ask(streams))
        await asyncio.sleep(0.05)
        assert not asking.done()
        successor = await asyncio.start_server(_succeed, sock=server.listener.dup())
        assert "200" in await asking
        successor.close()


async def _succeed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    writer.close()
