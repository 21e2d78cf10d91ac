"""A proxy in front of a daemon's socket or port that a test can cut: the daemon is away for one client, and for nobody else."""

import asyncio
import contextlib
from pathlib import Path

_REFUSED = b'{"message": "no space left on device"}'
_REFUSAL = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_REFUSED), _REFUSED)
)


class CutSocket:
    def __init__(self, address: str, path: Path) -> None:
        self._daemon, self._path = address.removeprefix("unix://"), path
        self.address = f"unix://{path}"
        self._server: asyncio.Server | None = None
        self._connections = set[asyncio.Task[None]]()
        self.refused_method = b""
        """Requests with this method are answered with an error, and the daemon never gets them."""

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._daemon)

    async def cut(self) -> None:
        """Drop every connection, and accept none, until `open` is called again."""
        assert self._server
        self._server.close()
        self._path.unlink(missing_ok=True)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            to, back = await self._connect()
            try:
                await asyncio.gather(self._pass_on(reader, back, writer), _pump(to, writer))
            finally:
                back.transport.abort()
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, daemon: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            while data := await reader.read(1 << 16):
                if self.refused_method and data.startswith(self.refused_method):
                    client.write(_REFUSAL)
                    await client.drain()
                    return
                daemon.write(data)
                await daemon.drain()
            daemon.write_eof()


class CutPort(CutSocket):
    """The same in front of a port of a host."""

    def __init__(self, host: str, port: int, path: Path) -> None:
        super().__init__(host, path)
        self._target, self.port = port, 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._daemon, self._target)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
