"""One WebSocket of the hub: messages out in their order, without a task of its own while there is nothing to say."""

import asyncio
import contextlib
from collections import deque
from typing import Any

import msgspec
from litestar import WebSocket
from litestar.exceptions import WebSocketDisconnect

from terracrew.protocol import messages

LIMIT = 4_096
"""Messages that may wait for a client that does not read; then it is dropped, and comes back when it can."""


class HubSocket:
    def __init__(self, socket: "WebSocket[Any, Any, Any]") -> None:
        self._socket = socket
        self._waiting: deque[bytes] = deque()
        self._writer: asyncio.Task[None] | None = None
        self.is_open = True

    def post(self, message: msgspec.Struct) -> None:
        """Send when the client takes it; never waits, never raises."""
        if not self.is_open:
            return
        self._waiting.append(messages.encode(message))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        elif len(self._waiting) > LIMIT:
            self.drop()

    async def receive(self) -> str | bytes | None:
        """The next frame; None when the client has gone."""
        while self.is_open:
            event = await self._socket.receive()
            if event["type"] == "websocket.disconnect":
                self.is_open = False
                return None
            text = event.get("text")
            frame = event.get("bytes") if text is None else text
            if frame is not None:
                return frame
        return None

    async def refuse(self, code: str, message: str) -> None:
        """Say why, then close."""
        self.post(messages.Refused(code, message, is_final=True))
        await self.close(4403 if code in ("unauthenticated", "forbidden") else 4409)

    async def close(self, code: int = 1000) -> None:
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=5)
        if self.is_open:
            self.is_open = False
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # the client was faster
                await self._socket.close(code)

    def drop(self) -> None:
        """End the connection from another task; its own loop notices."""
        self._waiting.clear()
        self._closing = asyncio.create_task(self.close(4408))

    async def _write(self) -> None:
        try:
            while self._waiting:
                await self._socket.send(
                    {"type": "websocket.send", "text": self._waiting.popleft().decode(), "bytes": None}
                )
        except (RuntimeError, WebSocketDisconnect, OSError):
            self.is_open = False
            self._waiting.clear()
        finally:
            self._writer = None
