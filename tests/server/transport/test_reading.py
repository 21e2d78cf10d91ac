"""A WebSocket of the hub reads ahead by one message, and no further."""

import asyncio
from typing import Any

from uvicorn.server import ServerState

from terracrew.server.transport.connections import Connections
from terracrew.server.transport.http import LimitedConfig
from terracrew.server.transport.keepalive import HubWebSocket

UPGRADE = (
    b"GET /runnerhub HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


class Reading:
    """A transport that takes down when reading stops and begins again."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def pause_reading(self) -> None:
        self.changes.append("pause")

    def resume_reading(self) -> None:
        self.changes.append("resume")

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        self.changes.append("close")

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> None:
        del name


async def connected(app: Any) -> tuple[HubWebSocket, Reading]:
    config = LimitedConfig(app, Connections(10, 10), ws=HubWebSocket, lifespan="off", log_config=None)
    config.load()
    protocol, reading = HubWebSocket(config, ServerState(), {}), Reading()
    protocol.connection_made(reading)  # pyright: ignore[reportArgumentType]
    protocol.data_received(UPGRADE)
    await asyncio.sleep(0.001)
    return protocol, reading


async def test_reading_stops_only_while_two_messages_wait() -> None:
    """It stopped after each message and began again when it was taken, which took two system calls for each."""
    got, free = list[str](), asyncio.Semaphore(1)

    async def take(scope: Any, receive: Any, send: Any) -> None:
        del scope
        await receive()
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        while True:
            await free.acquire()
            got.append((await receive())["text"])

    protocol, reading = await connected(take)
    for number in (b"1", b"2"):
        protocol.data_received(b"\x81\x81\0\0\0\0" + number)
        await asyncio.sleep(0.001)
    assert (got, reading.changes) == (["1"], [])
    protocol.data_received(b"\x81\x81\0\0\0\x003")
    assert reading.changes == ["pause"]
    for _ in range(2):
        free.release()
    await asyncio.sleep(0.001)
    assert (got, reading.changes) == (["1", "2", "3"], ["pause", "resume"])
    for task in list(protocol.tasks):
        task.cancel()


async def test_reading_goes_on_after_a_close_so_that_its_answer_is_read() -> None:
    """Messages that nobody took counted, and the connection stayed open until the time for the answer was over."""
    has_come = asyncio.Event()

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        del scope
        await receive()
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        await has_come.wait()
        await send({"type": "websocket.close", "code": 1012})

    protocol, reading = await connected(refuse)
    protocol.data_received(b"\x81\x81\0\0\0\x001")
    has_come.set()
    await asyncio.sleep(0.001)
    protocol.data_received(b"\x81\x81\0\0\0\x002")
    assert reading.changes == []
    protocol.data_received(b"\x88\x82\0\0\0\0\x03\xf4")
    await asyncio.sleep(0.001)
    assert reading.changes == ["close"]
