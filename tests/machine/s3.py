"""An emulator of S3 that a test can kill and start again: moto's server, behind a port that can be cut.

The emulator itself lives on with its objects, as a store does whose network or front end is away. A cut drops every connection, also
in the middle of a request, and nobody listens at the port until it is opened again.
"""

import asyncio
import contextlib
import importlib
import threading
import urllib.request
from collections.abc import Generator
from typing import Any

_PIECE_BYTES = 1 << 16


class CutStore:
    def __init__(self, target: tuple[str, int]) -> None:
        self._target, self.port = target, 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._connections = set[asyncio.Task[None]]()
        self._bytes_left: int | None = None
        self.is_cut = threading.Event()

    @property
    def environment(self) -> dict[str, str]:
        """What a server that uses it needs."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "the-secret-key",
        }

    def make_bucket(self, name: str) -> str:
        """Make a bucket, and return its URL."""
        address = "http://{}:{}/".format(*self._target) + name
        request = urllib.request.Request(address, method="PUT")
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200
        return f"s3://{name}/some/prefix"

    def start(self) -> None:
        self._thread.start()
        self.open()

    def stop(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def open(self) -> None:
        """Let it answer again, at the same port."""
        self._bytes_left = None
        self.is_cut.clear()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)

    def cut(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    def cut_after(self, count: int) -> None:
        """Cut it when so many more bytes have gone to it or come from it."""
        self._bytes_left = count

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self.is_cut.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        with contextlib.suppress(asyncio.CancelledError):  # it is cut
            to, back = await asyncio.open_connection(*self._target)
            try:
                await asyncio.gather(self._carry(reader, back), self._carry(to, writer))
            finally:
                back.transport.abort()
        self._connections.discard(task)
        writer.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_PIECE_BYTES):
                if self._bytes_left is not None:
                    self._bytes_left -= len(data)
                    if self._bytes_left <= 0 and self._server is not None:
                        cutting = asyncio.ensure_future(self._cut())
                        await asyncio.shield(cutting)
                sink.write(data)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()


@contextlib.contextmanager
def s3_emulator() -> Generator[CutStore]:
    library: Any = importlib.import_module("moto.server")
    server = library.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    store = CutStore(server.get_host_and_port())
    store.start()
    try:
        yield store
    finally:
        store.stop()
        server.stop()
