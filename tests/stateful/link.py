"""A connection to the hub without a network between: what a client says, and what it is told."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from terracrew.protocol import messages
from terracrew.server.context import Server
from terracrew.server.hub import endpoint
from tests.stateful.faulty_database import TIMEOUT_SECONDS

SILENT, STOPPING, KILLED = 1011, 1012, 1006


class Link:
    def __init__(self, server: Server, token: str, decode: Callable[[str], Any]) -> None:
        self._decode = decode
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._inbox.put_nowait({"type": "websocket.connect"})
        self._told: list[Any] = []
        self.refusal = ""
        self._changed = asyncio.Event()
        self._is_waiting = False
        scope: Any = {"type": "websocket", "headers": [(b"authorization", f"Bearer {token}".encode())]}
        door = asyncio.Semaphore(endpoint.MAX_HELLOS)
        self._task = asyncio.create_task(endpoint.runnerhub(server.hub, door, scope, self._receive, self._send))
        self._task.add_done_callback(lambda _: self._changed.set())

    @property
    def is_open(self) -> bool:
        return not self._task.done()

    def say(self, message: msgspec.Struct) -> None:
        self._put({"type": "websocket.receive", "text": messages.encode(message).decode(), "bytes": None})

    def say_bytes(self, frame: bytes) -> None:
        self._put({"type": "websocket.receive", "text": None, "bytes": frame})

    async def reply(self, is_it: Callable[[Any], bool]) -> Any:
        """The first unread message that is; None when the connection ends without it."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                found = next(filter(is_it, self._told), None)
                if found is not None:
                    self._told.remove(found)
                    return found
                if not self.is_open:
                    return None
                self._changed.clear()
                await self._changed.wait()

    async def quiet(self) -> None:
        """Until all that was said has been taken, as far as the connection's own task goes."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while self.is_open and not (self._is_waiting and self._inbox.empty()):
                self._changed.clear()
                await self._changed.wait()

    def read(self, kind: type[Any]) -> list[Any]:
        """What was told without being asked."""
        found = [message for message in self._told if isinstance(message, kind)]
        self._told = [message for message in self._told if not isinstance(message, kind)]
        return found

    async def hang_up(self, code: int = KILLED) -> None:
        self._put({"type": "websocket.disconnect", "code": code})
        await asyncio.wait([self._task], timeout=TIMEOUT_SECONDS)
        assert self._task.done(), "a connection whose client is gone is still served"
        if not self._task.cancelled() and (error := self._task.exception()):
            raise error

    def _put(self, event: dict[str, Any]) -> None:
        self._inbox.put_nowait(event)

    async def _receive(self) -> Any:
        if self._inbox.empty():
            self._is_waiting = True
            self._changed.set()
        event = await self._inbox.get()
        self._is_waiting = False
        return event

    async def _send(self, event: Any) -> None:
        if event["type"] == "websocket.send":
            message = self._decode(event["text"])
            if isinstance(message, messages.Refused):
                self.refusal = message.message
            elif message is not None:
                self._told.append(message)
                self._changed.set()
