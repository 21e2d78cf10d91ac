"""A receiver of requests for tests: a real HTTP server on loopback that keeps what it got and answers what a test wants."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Receiver:
    url: str = ""
    received: list[Received] = field(default_factory=list[Received])
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b"ok"
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is cleared, no request is answered."""
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    raw: bytes | None = None
    """Bytes that are sent in place of an answer."""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.received.append(Received(method, target, headers, body))
            self.is_asked.set()
            await self.open.wait()
            writer.write(self.raw if self.raw is not None else self._answer())
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self) -> bytes:
        headers = {"Content-Length": str(len(self.body)), "Connection": "close", **self.headers}
        lines = [f"HTTP/1.1 {self.status} Answer", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


@contextlib.asynccontextmanager
async def running(host: str = "127.0.0.1") -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    receiver.open.set()
    async with await asyncio.start_server(receiver.handle, host, 0) as web:
        port = web.sockets[0].getsockname()[1]
        receiver.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        yield receiver
        receiver.open.set()
        web.close()
