"""Minimal clients of HTTP and WebSocket: on a machine with two cores, the load generator must use very little CPU."""

import asyncio
import json
import re
import resource
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_MASK = b"\0\0\0\0"
"""A mask of zeros leaves the payload as it is; the server unmasks it like any other."""


def allow_connections() -> None:
    """Raise the limit of open files: each connection needs one, and a shell usually allows a thousand."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class HttpError(RuntimeError):
    """An answer that is not a success."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class HttpClient(asyncio.Protocol):
    """One connection that is kept alive: a request at a time, whole answers."""

    def __init__(self, host: str, token: str) -> None:
        self._head = f" HTTP/1.1\r\nHost: {host}\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.WriteTransport

    @classmethod
    async def open(cls, url: str, token: str) -> "HttpClient":
        host, _, port = (netloc := urlsplit(url).netloc).partition(":")
        _, client = await asyncio.get_running_loop().create_connection(lambda: cls(netloc, token), host, int(port))
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    async def call(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Any:
        """Return the JSON of the answer; an answer that is not a success is an error."""
        status, content = await self._send(method, path, body, kind)
        if status >= 300:
            raise HttpError(f"{method} {path}: {status} {content[:300]!r}", status)
        return json.loads(content) if content else None

    async def fetch(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of any answer."""
        return await self._send("GET", path, b"", "application/json")

    async def _send(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        head = f"{method} {path}{self._head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        found = _LENGTH.search(self._buffer, 0, end)
        whole = end + 4 + (int(found[1]) if found else 0)
        if len(self._buffer) >= whole:
            answer, content = self._answer, self._buffer[end + 4 : whole]
            status, self._buffer, self._answer = int(self._buffer[9:12]), self._buffer[whole:], None
            answer.set_result((status, content))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()


class WebSocket(asyncio.Protocol):
    """The client side of one WebSocket, with callbacks: a task for each of a thousand connections would cost more than their messages."""

    def __init__(self, host: str, token: str) -> None:
        self._request = (
            f"GET /runnerhub HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        ).encode()
        self._buffer = b""
        self._is_open = False
        self._transport: asyncio.WriteTransport | None = None
        self.on_open: Callable[[], None] = lambda: None
        self.on_message: Callable[[bytes], None] = lambda _: None
        self.on_lost: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.write(self._request)

    def send(self, *frames: tuple[int, bytes]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(part for opcode, payload in frames for part in _frame(opcode, payload)))

    def close(self) -> None:
        """Send a close frame; the server closes the connection."""
        self.send((CLOSE, b"\x03\xe8"))

    def drop(self) -> None:
        """Close the connection without a close frame."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if b" 503 " in self._buffer[:16]:  # too many at this moment: a runner comes again later
                self.drop()
                return
            if b" 101 " not in self._buffer[:16]:
                raise RuntimeError(f"the hub refused the handshake: {self._buffer[:200]!r}")
            self._buffer, self._is_open = self._buffer[end + 4 :], True
            self.on_open()
        for opcode, payload in self._frames():
            if opcode in (TEXT, BINARY):
                self.on_message(payload)
            elif opcode == PING:
                self.send((PONG, payload))
            elif opcode == CLOSE and self._transport is not None:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.on_lost()

    def _frames(self) -> "deque[tuple[int, bytes]]":
        found: deque[tuple[int, bytes]] = deque()
        while len(self._buffer) >= 2:
            size, start = self._buffer[1] & 0x7F, 2
            if size == 126:
                size, start = int.from_bytes(self._buffer[2:4]), 4
            elif size == 127:
                size, start = int.from_bytes(self._buffer[2:10]), 10
            if len(self._buffer) < max(start, start + size):
                break
            found.append((self._buffer[0] & 0xF, self._buffer[start : start + size]))
            self._buffer = self._buffer[start + size :]
        return found


def _frame(opcode: int, payload: bytes) -> tuple[bytes, bytes, bytes]:
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size)
    return head, _MASK, payload
