"""The network between runners and servers, as a process: a port for each host, whose bytes can be held back or cut off.

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
_EXECUTORS_CREDENTIAL = b"Bearer tch"
_PIECE = 1 << 16


class Order(msgspec.Struct, frozen=True):
    """What shall be with the connections of a link from now on; `reset` ends those that there are."""

    link: int
    mode: Literal["open", "hold", "closed"]
    whose: Whose = "all"
    direction: Direction = "both"
    is_reset: bool = False


class Link:
    def __init__(self, targets: list[int]) -> None:
        self._targets = targets
        self._gates = {(whose, way): asyncio.Event() for whose in ("runner", "executors") for way in ("up", "down")}
        self._is_closed = False
        self._open: set[asyncio.StreamWriter] = set()
        for gate in self._gates.values():
            gate.set()

    def obey(self, order: Order) -> None:
        self._is_closed = order.mode == "closed"
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
            there, back = await self._reach()
            ends.append(back)
            self._open.add(back)
            back.write(head)
            up = asyncio.create_task(self._pump(reader, back, self._gates[whose, "up"]))
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

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                await gate.wait()
                writer.write(data)
                await writer.drain()
        await gate.wait()  # an end is news, too


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
