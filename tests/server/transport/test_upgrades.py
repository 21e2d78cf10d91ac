"""Connections that become WebSockets."""

import asyncio
import contextlib
from typing import Any

import pytest
from uvicorn.server import ServerState

from terracrew.server.transport.connections import Connections
from terracrew.server.transport.http import LimitedConfig, LimitedHttpProtocol
from terracrew.server.transport.keepalive import HubWebSocket

UPGRADE = (
    b"GET /runnerhub HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


class BrokenWebSocket(HubWebSocket):
    def connection_made(self, transport: Any) -> None:
        raise RuntimeError("the handshake failed")


async def test_a_handshake_that_fails_gives_its_place_and_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The total of connections stayed one too high after each of them, until the server refused everybody."""
    table = Connections(10, 10)
    config = LimitedConfig(_answer_nothing, table, ws=BrokenWebSocket, lifespan="off", log_config=None)
    config.load()
    loop = asyncio.get_running_loop()
    failures: list[BaseException] = []

    def note(context: dict[str, Any]) -> None:
        failures.append(context["exception"])

    monkeypatch.setattr(loop, "call_exception_handler", note)
    server = await loop.create_server(lambda: LimitedHttpProtocol(config, ServerState(), {}), "127.0.0.1", 0)
    async with server:
        for count in (1, 2):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(UPGRADE)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
            assert [str(error) for error in failures] == ["the handshake failed"] * count
            async with asyncio.timeout(10):
                while table.total:
                    await asyncio.sleep(0.01)


async def _answer_nothing(scope: Any, receive: Any, send: Any) -> None: ...


async def _talk(app: Any, *frames: bytes, early: asyncio.Event | None = None) -> bytes:
    """Send a handshake and frames to an application, and return everything that comes back.

    The frames are sent after the answer to the handshake, or as soon as `early` is set.
    """
    config = LimitedConfig(app, Connections(10, 10), ws=HubWebSocket, lifespan="off", log_config=None)
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: LimitedHttpProtocol(config, ServerState(), {}), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(UPGRADE)
        found = b""
        async with asyncio.timeout(10):
            if early is None:
                found = await reader.readuntil(b"\r\n\r\n")
            else:
                await early.wait()
            writer.write(b"".join(frames))
            found += await reader.read()
        writer.close()
    return found


async def test_frames_are_exchanged_after_a_handshake() -> None:
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        assert scope["path"] == "/runnerhub"
        assert (b"host", b"localhost") in scope["headers"]
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        got = await receive()
        await send({"type": "websocket.send", "text": got["text"], "bytes": None})

    found = await _talk(echo, b"\x81\x82\0\0\0\0hi")
    assert found.startswith(b"HTTP/1.1 101 ")
    assert found.endswith(b"\x81\x02hi")


async def test_the_application_may_refuse_a_handshake() -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        del scope
        await receive()
        await send({"type": "websocket.close", "code": 1000})

    assert (await _talk(refuse)).startswith(b"HTTP/1.1 403 ")


async def test_a_client_that_speaks_before_the_answer_is_disconnected() -> None:
    asked, told = asyncio.Event(), list[str]()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        del scope, send
        told.append((await receive())["type"])
        asked.set()
        told.append((await receive())["type"])

    found = await _talk(wait, b"\x81\x82\0\0\0\0hi", early=asked)
    assert b" 101 " not in found
    assert told == ["websocket.connect", "websocket.disconnect"]
