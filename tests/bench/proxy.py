"""A proxy that adds distance: `python -m tests.bench.proxy PORT TARGET MS` delays each direction by MS milliseconds."""

import asyncio
import contextlib
import subprocess
import sys
from collections import deque
from collections.abc import Generator
from typing import cast

from tests.e2e.system import eventually, free_port

ONE_WAY_MS = 25


class Side(asyncio.Protocol):
    """One end of a proxied connection; the other end sends what this one receives, after the delay."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._transport: asyncio.Transport | None = None
        self._under_way: deque[tuple[float, bytes | None]] = deque()
        self._is_waiting = False
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._under_way:
            self._pass_on()

    def data_received(self, data: bytes) -> None:
        if self.other:
            self.other.take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other:
            self.other.take(None)

    def take(self, data: bytes | None) -> None:
        """Send the bytes after the delay; None closes the connection."""
        self._under_way.append((asyncio.get_running_loop().time() + self._delay, data))
        if not self._is_waiting and self._transport is not None:
            self._pass_on()

    def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._transport is not None
        self._is_waiting = False
        while self._under_way and self._under_way[0][0] <= loop.time():
            data = self._under_way.popleft()[1]
            if data is None:
                return self._transport.close()
            self._transport.write(data)
        if self._under_way:
            self._is_waiting = True
            loop.call_at(self._under_way[0][0], self._pass_on)
        return None


async def _serve(port: int, target: int, delay: float) -> None:
    loop = asyncio.get_running_loop()
    connecting: set[asyncio.Task[object]] = set()

    def accept() -> Side:
        near, far = Side(delay), Side(delay)
        near.other, far.other = far, near
        task = loop.create_task(loop.create_connection(lambda: far, "127.0.0.1", target))
        connecting.add(task)
        task.add_done_callback(connecting.discard)
        return near

    server = await loop.create_server(accept, "127.0.0.1", port)
    await server.serve_forever()


@contextlib.contextmanager
def distant(url: str) -> Generator[str]:
    """Yield another address of a local server, with a round trip of 50 ms."""
    port = free_port()
    target = url.rpartition(":")[2]
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.proxy", str(port), target, str(ONE_WAY_MS)])
    try:
        eventually(lambda: _listens(port), what="the proxy")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000))
