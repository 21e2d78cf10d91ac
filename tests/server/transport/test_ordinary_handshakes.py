"""The handshakes that are answered without the parser of `websockets`, and that both agree about them."""

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from uvicorn.server import ServerState
from websockets.http11 import Request
from websockets.server import ServerProtocol

from terracrew.server.transport import upgrades
from terracrew.server.transport.connections import Connections
from terracrew.server.transport.http import LimitedConfig, LimitedHttpProtocol
from terracrew.server.transport.keepalive import HubWebSocket

KEY = b"MDEyMzQ1Njc4OWFiY2RlZg=="
ORDINARY = [
    (b"host", b"localhost"),
    (b"connection", b"Upgrade"),
    (b"upgrade", b"websocket"),
    (b"sec-websocket-version", b"13"),
    (b"sec-websocket-key", KEY),
]
NAMES = st.sampled_from(
    [
        b"connection",
        b"upgrade",
        b"sec-websocket-version",
        b"sec-websocket-key",
        b"sec-websocket-protocol",
        b"content-length",
        b"transfer-encoding",
        b"origin",
    ]
)
VALUES = st.sampled_from(
    [
        b"Upgrade",
        b"keep-alive, Upgrade",
        b"close",
        b"websocket",
        b"WebSocket",
        b"h2c",
        b"13",
        b"12",
        KEY,
        b"a",
        b"0",
        b"5",
    ]
)


def _answer_of_library(method: str, url: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[int, str | None]:
    protocol = ServerProtocol()
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    protocol.receive_data(method.encode() + b" " + url + b" HTTP/1.1\r\n" + lines + b"\r\n")
    [request] = protocol.events_received() or [None]
    if not isinstance(request, Request):
        return 400, None
    response = protocol.accept(request)
    return response.status_code, response.headers.get("Sec-WebSocket-Accept")


def test_an_ordinary_handshake_gets_the_answer_of_the_library() -> None:
    answer = upgrades.answer_to("GET", "1.1", b"/runnerhub", ORDINARY)
    assert answer is not None
    status, accept = _answer_of_library("GET", b"/runnerhub", ORDINARY)
    assert status == 101
    assert f"Sec-WebSocket-Accept: {accept}\r\n".encode() in answer
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert answer.endswith(b"\r\n\r\n")


@given(st.lists(st.tuples(NAMES, VALUES), max_size=3), st.sets(st.integers(1, 4), max_size=1))
@example([(b"origin", b"a"), (b"origin", b"b")], set())
def test_what_is_accepted_here_is_accepted_by_the_library(more: list[tuple[bytes, bytes]], missing: set[int]) -> None:
    headers = [each for place, each in enumerate(ORDINARY) if place not in missing] + more
    answer = upgrades.answer_to("GET", "1.1", b"/runnerhub", headers)
    if answer is not None:
        status, accept = _answer_of_library("GET", b"/runnerhub", headers)
        assert status == 101
        assert accept is not None
        assert accept.encode() in answer


@pytest.mark.parametrize(
    ("method", "version", "url"),
    [
        ("POST", "1.1", b"/runnerhub"),
        ("GET", "1.0", b"/runnerhub"),
        ("GET", "1.1", b"/a%2Fb"),
        ("GET", "1.1", b"/a?b=c"),
    ],
)
def test_an_unusual_request_is_left_to_the_library(method: str, version: str, url: bytes) -> None:
    assert upgrades.answer_to(method, version, url, ORDINARY) is None


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
        head = b"".join(name + b": " + value + b"\r\n" for name, value in ORDINARY)
        writer.write(b"GET /runnerhub HTTP/1.1\r\n" + head + b"\r\n")
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


async def test_frames_are_exchanged_after_an_ordinary_handshake() -> None:
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


async def test_the_application_may_refuse_an_ordinary_handshake() -> None:
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
