"""Simulates the network between runners and servers in one process: each host has a port whose traffic can be held or cut.

`python -m tests.chaos.proxy LINKS TARGET…` prints the ports it listens on, then obeys a line of JSON at a time. What is
held is neither lost nor closed, as in a network that drops packets: TCP would send it again and again.
"""

import asyncio
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Generator
from typing import Literal

import msgspec

Whose = Literal["runner", "executors", "all"]
Direction = Literal["up", "down", "both"]
Mode = Literal["open", "hold", "closed", "refuse"]
_EXECUTORS_CREDENTIAL = b"Bearer tch"
_PIECE = 1 << 16
_LINGER_SECONDS = 2.0
_METHODS = (b"GET ", b"PUT ", b"POST ", b"PATCH ", b"DELETE ", b"HEAD ")
_REFUSALS = ("413 Request Entity Too Large", "403 Forbidden", "404 Not Found", "502 Bad Gateway")


class Order(msgspec.Struct, frozen=True):
    """How the connections of a link behave from now on; `reset` ends the existing ones."""

    link: int
    mode: Mode
    whose: Whose = "all"
    direction: Direction = "both"
    is_reset: bool = False
    refused_share: float = 0.0
    """In mode `refuse`: how many of all requests the proxy answers itself."""


class Link:
    def __init__(self, targets: list[int]) -> None:
        self._targets = targets
        self._gates = {(whose, way): asyncio.Event() for whose in ("runner", "executors") for way in ("up", "down")}
        self._is_closed = False
        self._refused_share = 0.0
        self._open: set[asyncio.StreamWriter] = set()
        for gate in self._gates.values():
            gate.set()

    def obey(self, order: Order) -> None:
        self._is_closed = order.mode == "closed"
        self._refused_share = order.refused_share if order.mode == "refuse" else 0.0
        for (whose, way), gate in self._gates.items():
            is_meant = order.whose in (whose, "all") and order.direction in (way, "both")
            gate.clear() if order.mode == "hold" and is_meant else gate.set()
        if order.is_reset or self._is_closed:
            for writer in self._open:
                writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        self._open.add(writer)
        try:
            if self._is_closed:
                return
            head = await reader.read(_PIECE)
            whose = "executors" if _EXECUTORS_CREDENTIAL in head else "runner"
            await self._gates[whose, "up"].wait()
            if self._is_refused(head):
                await _refuse(reader, writer)
                return
            there, back = await self._reach()
            ends.append(back)
            self._open.add(back)
            back.write(head)
            up = asyncio.create_task(self._pump(reader, back, self._gates[whose, "up"], answers=writer))
            down = asyncio.create_task(self._pump(there, writer, self._gates[whose, "down"]))
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            for task in (up, down):
                task.cancel()
        except OSError:
            pass  # nobody listens there: the client sees its connection go
        finally:
            for end in ends:
                self._open.discard(end)
                end.transport.abort() if self._is_closed else end.close()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for port in random.sample(self._targets, len(self._targets)):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        raise ConnectionRefusedError

    def _is_refused(self, data: bytes) -> bool:
        """Tell whether to refuse: data that begins with an HTTP method is a request, because WebSocket frames are masked."""
        return random.random() < self._refused_share and data.startswith(_METHODS)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: asyncio.Event,
        answers: asyncio.StreamWriter | None = None,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                await gate.wait()
                if answers and self._is_refused(data):
                    await _refuse(reader, answers)
                    return
                writer.write(data)
                await writer.drain()
        await gate.wait()  # an end is news, too


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer before the request has been read, then wait a little for the client to read the answer, as nginx does."""
    reason = random.choice(_REFUSALS)
    page = f"<html><head><title>{reason}</title></head><body><center><h1>{reason}</h1></center></body></html>"
    head = f"HTTP/1.1 {reason}\r\nServer: nginx\r\nContent-Type: text/html\r\nConnection: close\r\n"
    with contextlib.suppress(OSError):
        writer.write(f"{head}Content-Length: {len(page)}\r\n\r\n{page}".encode())
        await writer.drain()
        writer.write_eof()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while await reader.read(_PIECE):
                pass


async def _serve(links: int, targets: list[int]) -> None:
    loop = asyncio.get_running_loop()
    made = [Link(targets) for _ in range(links)]
    servers = [await asyncio.start_server(link.accept, "127.0.0.1", 0) for link in made]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        order = msgspec.json.decode(line, type=Order)
        made[order.link].obey(order)


class Network:
    """The handle of the process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        assert process.stdout
        self.ports: list[int] = json.loads(process.stdout.readline())

    def url(self, link: int) -> str:
        return f"http://127.0.0.1:{self.ports[link]}"

    def order(self, order: Order) -> None:
        assert self._process.stdin
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()

    def heal(self) -> None:
        for link in range(len(self.ports)):
            self.order(Order(link, "open"))

    @classmethod
    @contextlib.contextmanager
    def running(cls, links: int, targets: list[int]) -> Generator["Network"]:
        arguments = [sys.executable, "-m", "tests.chaos.proxy", str(links), *map(str, targets)]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            yield cls(process)
            process.terminate()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
