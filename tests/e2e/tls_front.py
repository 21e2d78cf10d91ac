"""TLS in front of a real server, as a proxy of an installation terminates it."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Generator
from pathlib import Path

from tests.e2e.system import free_port
from tests.machine.certificates import certificate


class TlsFront:
    """Terminates TLS in front of a server, which has none of its own."""

    def __init__(self, folder: Path, server_port: int) -> None:
        self.port, self._server_port = free_port(), server_port
        self.certificate, key = certificate(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)

    @contextlib.contextmanager
    def running(self) -> Generator["TlsFront"]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        start = asyncio.start_server(self._forward, "127.0.0.1", self.port, ssl=self._context)
        server = asyncio.run_coroutine_threadsafe(start, loop).result(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(server.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        writer.close()
