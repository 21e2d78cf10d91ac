"""A WebSocket of the hub reads ahead by one message, and no further."""

import asyncio
from typing import Any

from uvicorn.server import ServerState

from terracrew.server.transport.connections import Connections
from terracrew.server.transport.http import LimitedConfig
from terracrew.server.transport.keepalive import HubWebSocket


class Reading:
    """A transport that takes down when reading stops and begins again."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def pause_reading(self) -> None:
        self.changes.append("pause")

    def resume_reading(self) -> None:
        self.changes.append("resume")

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def is_closing(self) -> bool:
        return False


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

    config = LimitedConfig(take, Connections(10, 10), ws=HubWebSocket, lifespan="off", log_config=None)
    config.load()
    protocol, reading = HubWebSocket(config, ServerState(), {}), Reading()
    protocol.take_over(reading, None, None, "http")  # pyright: ignore[reportArgumentType]
    protocol.begin({"headers": []}, b"/runnerhub", b"HTTP/1.1 101 Switching Protocols\r\n\r\n")  # pyright: ignore[reportArgumentType]
    await asyncio.sleep(0.001)
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
