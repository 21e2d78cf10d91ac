"""A server that starts while its database is away waits, says so, and is ready when the database is back."""

import asyncio
import contextlib
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from terracrew.errors import Unavailable
from terracrew.server import app, main
from terracrew.server.process import serve
from terracrew.server.process.waiting import until_answering
from tests.machine.postgres_server import PostgresServer
from tests.server.application import settings_for

pytestmark = pytest.mark.postgres


class Road:
    """The way to PostgreSQL, which can be closed and opened."""

    def __init__(self, postgres_url: str) -> None:
        self._there = urlsplit(postgres_url)
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            self._port: int = reserved.getsockname()[1]
        user = self._there.netloc.rpartition("@")[0]
        self.url = postgres_url.replace(self._there.netloc, f"{user}@127.0.0.1:{self._port}".removeprefix("@"))
        self._server: asyncio.Server | None = None
        self._travelling: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self._port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for each in self._travelling:
            each.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_connection(self._there.hostname, self._there.port)
        self._travelling |= {writer, theirs[1]}
        await asyncio.gather(_copy(reader, theirs[1]), _copy(theirs[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _expect_waiting(listener: socket.socket) -> None:
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=base, trust_env=False) as client, asyncio.timeout(30):
        while True:
            with contextlib.suppress(httpx.ConnectError):
                answer = await client.get("/readyz")
                break
            await asyncio.sleep(0.01)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/api/v1/jobs")).headers["retry-after"] == "2"


async def test_a_server_that_is_started_while_postgresql_is_away_waits_for_it(
    postgres_url: str, tmp_path: Path
) -> None:
    """It exited, so a server and a database that started together depended on which of them was the faster one."""
    road = Road(postgres_url)
    settings = settings_for(tmp_path, road.url, port=0)
    listener = serve.bind(settings)
    building = asyncio.create_task(until_answering(listener, lambda: app.build(settings)))
    await _expect_waiting(listener)
    await road.open()
    async with asyncio.timeout(30):
        server = await building
    assert server.db.kind == "postgres"
    await app.close(server)
    road.close()
    listener.close()


async def test_a_start_goes_on_when_a_database_that_went_away_in_the_middle_is_back(
    postgres_url: str, tmp_path: Path
) -> None:
    """It ended with an error, after the database had answered once."""
    road = Road(postgres_url)
    await road.open()
    settings = settings_for(tmp_path, road.url, port=0)
    listener = serve.bind(settings)
    server = await until_answering(listener, lambda: app.build(settings))
    road.close()
    preparing = asyncio.create_task(main.prepare(server, listener, with_builtin_runner=False))
    await _expect_waiting(listener)
    await road.open()
    async with asyncio.timeout(30):
        runners, link = await preparing
    assert (runners, bool(link)) == ([], True)
    await app.close(server)
    road.close()
    listener.close()


async def test_a_database_that_does_not_exist_ends_the_start(postgres_server: PostgresServer, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, f"{postgres_server.url}/no_such_database", port=0)
    with serve.bind(settings) as listener, pytest.raises(Unavailable, match="no_such_database"):
        await until_answering(listener, lambda: app.build(settings))


async def test_a_server_that_waits_for_the_database_tries_out_its_object_store_once(tmp_path: Path) -> None:
    """It wrote and deleted a test object every second: four requests, and in a bucket with versions two more of them for ever."""
    tries = asyncio.Queue[int]()
    probes = tmp_path / "objects" / "probes"

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tries.put_nowait(probes.stat().st_mtime_ns)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as database:
        url = f"postgresql://nobody@127.0.0.1:{database.sockets[0].getsockname()[1]}/nothing"
        settings = settings_for(tmp_path, url, port=0)
        running = asyncio.create_task(main.run_until_stopped(settings, None, False, lambda: settings))
        async with asyncio.timeout(30):
            changed_at = {await tries.get() for _ in range(3)}
        running.cancel()
        await asyncio.wait([running])
    assert len(changed_at) == 1
