"""A connection that PostgreSQL has given up is not used again, even before its end arrives."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import pytest

from terracrew.errors import Unavailable
from terracrew.server.db import Tx, open_database

_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
SHUT_DOWN = b"E" + (len(_FIELDS) + 4).to_bytes(4, "big") + _FIELDS


class Between:
    """A proxy that can say to every client what PostgreSQL says before it closes, without closing."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: list[asyncio.StreamWriter] = []
        self._pumps: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[int]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for pump in self._pumps:
                pump.cancel()

    def say(self, data: bytes) -> None:
        for client in self._clients:
            client.write(data)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._clients.append(writer)
        self._pumps |= {asyncio.create_task(_pump(reader, back)), asyncio.create_task(_pump(there, writer))}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()


@pytest.mark.postgres
async def test_cannot_switch_to_state_15_another_operation_2_is_in_progress(postgres_url: str) -> None:
    """A unit of work that gets such a connection is told that the database is away, like those that come a moment later."""
    address = urlsplit(postgres_url)
    assert address.port
    between = Between(address.port)

    async def ask(tx: Tx) -> object:
        return await tx.one("SELECT 1 AS one")

    async with between.listening() as port:
        db = await open_database(address._replace(netloc=f"postgres@127.0.0.1:{port}").geturl())
        try:
            await db.write(ask)
            between.say(SHUT_DOWN)
            for _ in range(5):
                await asyncio.sleep(0)  # the loop's turn: it reads what lies in the sockets before anybody asks again
            with pytest.raises(Unavailable):
                await db.write(ask)
            assert await db.ready(20)
            assert await db.write(ask) == {"one": 1}
        finally:
            await db.close()
