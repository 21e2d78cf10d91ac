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
    def take_over(self, *arguments: Any, **settings: Any) -> None:
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
