"""Several servers on one PostgreSQL behind a small balancer: real processes, and a database that may be stopped."""

import asyncio
import contextlib
import threading
from collections.abc import Generator, Iterable
from pathlib import Path

from terracrew.client.http import Api
from terracrew.server.db import open_database
from terracrew.server.identity.people import service
from terracrew.server.identity.people import store as people
from terracrew.server.identity.people.sessions import person
from tests.e2e.system import Process, System, eventually, free_port


class Balancer:
    """Gives each new connection to the next server that takes it, as any balancer does that looks at nothing but TCP."""

    def __init__(self, targets: Iterable[int]) -> None:
        self.port = free_port()
        self._targets = list(targets)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _listen(self) -> None:
        await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=4096)

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        for _ in self._targets:
            self._targets.append(target := self._targets.pop(0))
            try:
                server, to_server = await asyncio.open_connection("127.0.0.1", target)
                break
            except OSError:
                continue
        else:
            to_client.close()
            return
        both = {asyncio.create_task(_carry(client, to_server)), asyncio.create_task(_carry(server, to_client))}
        self._tasks |= both
        await asyncio.wait(both)
        self._tasks -= both


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()


class Fleet(System):
    """`url` is the balancer's; each server also has an address of its own."""

    def __init__(self, directory: Path, database_url: str, servers: int) -> None:
        super().__init__(directory, database_url)
        self.database_url = database_url
        self.ports = [free_port() for _ in range(servers)]
        self.servers: list[Process] = []
        self.balancer = Balancer(self.ports)
        self.url = f"http://127.0.0.1:{self.balancer.port}"
        self.data.mkdir()
        (directory / "objects").mkdir()
        (directory / "master.key").write_text("00" * 32)

    def start_servers(self) -> None:
        self.balancer.start()
        for index in range(len(self.ports)):
            self.servers.append(self.start_one(index))
        (self.data / "admin.token").write_text(asyncio.run(_token(self.database_url)))

    def start_one(self, index: int) -> Process:
        server = self.launch(index)
        api = Api(f"http://127.0.0.1:{self.ports[index]}")
        eventually(api.is_ready, what=f"the readiness of server {index}: {server.log}")
        return server

    def launch(self, index: int) -> Process:
        """Start a server, and do not wait for it."""
        arguments = [
            "server",
            "--data-dir",
            str(self.directory / f"server-{index}"),
            "--port",
            str(self.ports[index]),
            "--public-url",
            self.url,
            "--database-url",
            self.database_url,
            "--master-key-file",
            str(self.directory / "master.key"),
            "--object-store",
            f"file://{self.directory}/objects",
        ]
        return self.start(f"server-{index}", arguments, self.env)

    def close(self) -> None:
        super().close()
        self.balancer.stop()


@contextlib.contextmanager
def fleet(directory: Path, database_url: str, servers: int) -> Generator[Fleet]:
    found = Fleet(directory, database_url, servers)
    try:
        found.start_servers()
        yield found
    finally:
        found.close()


async def _token(url: str) -> str:
    db = await open_database(url)
    try:
        admin = await db.read(lambda tx: people.user(tx, service.ADMINISTRATOR))
        _, secret = await service.create_token(db, person(admin, None), "fleet", None)
    finally:
        await db.close()
    return secret.text
