"""One WebSocket of the hub. It sends messages in order, and has a writer task only while messages wait."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

import msgspec
from litestar.types import Receive, Send

from terracrew.errors import (
    Conflict,
    Forbidden,
    Incompatible,
    Invalid,
    NotFound,
    Superseded,
    TerracrewError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from terracrew.protocol import messages
from terracrew.server.transport.keepalive import END_TURN, KEEP_ALIVE, PONG, SILENT_CODE, STOPPING_CODE

MAX_WAITING_BYTES = 32 << 20
"""If more bytes wait for a client that does not read, the connection is dropped."""
CLOSE_SECONDS = 5.0
HELLO_SECONDS = 15.0
_FINAL_ERRORS = (Invalid, Unauthenticated, Forbidden, NotFound, Conflict, Incompatible)
"""After these errors, the same hello would be refused again. After all others, a client should try again."""


class HubSocket:
    """The task that serves the connection creates it; any task may post to it or drop it."""

    def __init__(
        self,
        receive: Receive,
        send: Send,
        door: asyncio.Semaphore | None = None,
        send_now: Callable[[bytes], bool] | None = None,
    ) -> None:
        """`door` limits how many hellos are handled at a time, so that a reconnecting fleet does not block other work.

        `send_now` sends a frame without waiting, and returns whether it could. Most frames need no writer task then.
        """
        self._receive, self._send, self._send_now = receive, send, send_now
        self._door, self._is_in_door = door, False
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._writer: asyncio.Task[None] | None = None
        self._serving = asyncio.current_task()
        self._is_closing = False
        self.is_open = True
        self.dropped: TerracrewError | None = None
        """Why another task dropped the connection."""
        self.on_contact: Callable[[], None] | None = None
        """Called whenever a frame or the answer to a ping arrives."""
        self._code = 0

    @property
    def is_silent(self) -> bool:
        """Whether the connection was dropped because its client was silent for too long, without a disconnect."""
        return self._code == SILENT_CODE

    @property
    def is_left_by_us(self) -> bool:
        """Whether the connection was closed because this server stops; the client will reconnect."""
        return self._code == STOPPING_CODE

    def post(self, message: msgspec.Struct) -> None:
        """Queue a message for the client. This never waits and never raises."""
        self._leave_door()
        if not self.is_open:
            return
        frame = messages.encode(message)
        if self._writer is None and self._send_now is not None and self._send_now(frame):
            return
        self._waiting.append(frame)
        self._size += len(frame)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        elif self._size > MAX_WAITING_BYTES:
            self.drop(Unavailable("this connection does not read what it is sent"))

    async def keep_alive(self) -> None:
        """Start to send pings, so that a connection without messages is known to be alive or is dropped."""
        await self._send({"type": KEEP_ALIVE})  # pyright: ignore[reportArgumentType]  (not of ASGI)

    async def end_turn(self) -> None:
        """Let the next handshake begin: this connection is authenticated, or waits for something other than the processor."""
        await self._send({"type": END_TURN})  # pyright: ignore[reportArgumentType]  (not of ASGI)

    async def hello(self) -> str | bytes | None:
        """Return the first frame, or raise Invalid if it does not arrive in time."""
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                frame = await self.receive()
        except TimeoutError:
            raise Invalid(f"no hello arrived within {HELLO_SECONDS:.0f} s") from None
        if frame is not None and self._door is not None:
            await self._door.acquire()  # until it is answered: a welcome, or why not
            self._is_in_door = True
        return frame

    async def receive(self) -> str | bytes | None:
        """Return the next frame, or None when the client has disconnected."""
        while self.is_open:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                self.is_open = False
                self._code = event.get("code") or 0
                return None
            if self.on_contact is not None:
                self.on_contact()
            if event["type"] == PONG:  # pyright: ignore[reportUnnecessaryComparison]  (not of ASGI)
                continue
            text = event.get("text")
            frame = event.get("bytes") if text is None else text
            if text is not None and len(text) > messages.MAX_TEXT_FRAME_BYTES:
                raise TooLarge(f"a text frame may have up to {messages.MAX_TEXT_FRAME_BYTES} bytes")
            if frame is not None:
                return frame
        return None

    async def refuse(self, error: TerracrewError) -> None:
        """Send the error, then close."""
        is_final = isinstance(error, _FINAL_ERRORS) and not isinstance(error, Superseded)
        self.post(messages.Refused(error.code, error.message, is_final))
        await self.close(4403 if isinstance(error, Unauthenticated | Forbidden) else 4409)

    async def close(self, code: int = 1000) -> None:
        """Close the connection after sending the messages that wait, if the client reads them in time."""
        self._leave_door()
        self._is_closing = True
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=CLOSE_SECONDS)
        if self.is_open:
            self.is_open = False
            with contextlib.suppress(RuntimeError, OSError, TimeoutError):  # closed already
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._send({"type": "websocket.close", "code": code, "reason": ""})
        if self._writer is not None:
            self._writer.cancel()

    def drop(self, why: TerracrewError) -> None:
        """End the connection from another task. The serving task is cancelled and closes it; no more frames are read."""
        if self.is_open and not self._is_closing and self.dropped is None and self._serving is not None:
            self.dropped = why
            self._serving.cancel()

    def give_up(self, why: TerracrewError) -> None:
        """Drop the connection because its client was silent for too long."""
        self._code = SILENT_CODE
        self.drop(why)

    def _leave_door(self) -> None:
        if self._is_in_door and self._door is not None:
            self._is_in_door = False
            self._door.release()

    async def _write(self) -> None:
        try:
            while self._waiting:
                frame = self._waiting.popleft()
                await self._send({"type": "websocket.send", "text": frame.decode(), "bytes": None})
                self._size -= len(frame)
        except (RuntimeError, OSError):
            self.is_open = False
            self._waiting.clear()
        finally:
            self._writer = None
