"""Serves the hub on a socket in this process, and connects clients that speak its protocol by hand."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from terracrew.protocol import messages, version
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.context import Server
from terracrew.server.process import serve
from terracrew.server.scheduling.queue import Waiting
from tests.builders import deliveries
from tests.builders.job_rows import change_runners
from tests.builders.transactions import held_open
from tests.server.declarations import declared_runner
from tests.server.simulated_runner import SimulatedRunner

TIMEOUT_SECONDS = 60.0
on_postgres = pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
"""For what needs two transactions at once, which SQLite never has."""


class Decision:
    """Whether a job was claimed for an instance, as soon as that is decided."""

    def __init__(self, session: RunnerSession) -> None:
        self._session = session
        self.is_claimed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def claimed(self, job_id: str) -> None:
        self._session.active_jobs.add(job_id)
        self.is_claimed.set_result(True)

    def unclaimed(self, job_id: str) -> None:
        self.is_claimed.set_result(False)


class Client:
    def __init__(self, connection: ClientConnection, server: Server) -> None:
        self.connection, self._server = connection, server
        self.instance_id = ""
        """The instance of a runner that is welcome."""

    async def send(self, message: msgspec.Struct) -> None:
        await self.connection.send(messages.encode(message), text=True)

    async def get(self, *kinds: str) -> dict[str, Any]:
        """The next message, or the next one of these kinds."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                found: dict[str, Any] = msgspec.json.decode(await self.connection.recv())
                self.instance_id = found.get("instance_id", self.instance_id)
                if not kinds or found["type"] in kinds:
                    return found

    async def ask(self, message: msgspec.Struct) -> dict[str, Any]:
        await self.send(message)
        return await self.get()

    async def send_credits(self, slots: int, received: int = 0) -> None:
        """Send credits, and wait until the server has taken them: an answer says that all before it was heard."""
        await self.send(messages.Credits(slots, received))
        await self.send(messages.HandBack("job_" + "0" * 32, 1, "there is no such job"))
        await self.get("settled")

    @asynccontextmanager
    async def living(self) -> AsyncGenerator[None]:
        """Meanwhile it does as a runner does: whatever it is configured to, it answers to with a heartbeat."""

        async def live() -> None:
            while True:
                await self.get("configure")
                await self.send(messages.Heartbeat("0.1.0", is_draining=False, attempts=[]))

        async with asyncio.TaskGroup() as tasks:
            living = tasks.create_task(live())
            yield
            living.cancel()

    def begin_claim(self, job_id: str, attempt: int = 1) -> asyncio.Future[bool]:
        """Let the server claim a job for this runner, as if its scheduler had chosen it. Returns whether it was claimed."""
        session = self._server.registry.runners[self.instance_id]
        decision = Decision(session)
        job = Waiting(job_id, 1, attempt, "", "", "", "", "tofu", 0, 0.0)
        self._server.claiming.start(decision, job, session)
        return decision.is_claimed

    async def claim(self, job_id: str, attempt: int = 1) -> bool:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self.begin_claim(job_id, attempt)

    async def granted(self, job_id: str, attempt: int = 1) -> Granted:
        assert await self.claim(job_id, attempt)
        return msgspec.convert(await self.get("granted"), Granted, strict=False)


class Hub:
    """The server's hub, and a shared runner that may take every job."""

    def __init__(self, runner: SimulatedRunner, url: str, runner_id: str, secret: str) -> None:
        self.crew, self.url, self.runner_id, self._secret = runner, url, runner_id, secret

    @property
    def server(self) -> Server:
        return self.crew.server

    @asynccontextmanager
    async def connected(self, token: str) -> AsyncGenerator[Client]:
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(self.url, additional_headers=headers, compression=None, max_size=8 << 20) as connection:
            yield Client(connection, self.server)

    @asynccontextmanager
    async def runner(self, **hello: Any) -> AsyncGenerator[Client]:
        async with self.connected(await self.token()) as client:
            assert (await client.ask(self.hello(**hello)))["type"] == "welcome"
            yield client

    @asynccontextmanager
    async def executor(self, granted: Granted) -> AsyncGenerator[Client]:
        async with self.connected(granted.credentials.hub) as client:
            assert (await client.ask(executor_hello(ref_of(granted))))["type"] == "welcome"
            yield client

    async def token(self) -> str:
        return (await self.server.identity.tokens.exchange(self.runner_id, self._secret, "127.0.0.1")).access_token

    @property
    def secret(self) -> str:
        return self._secret

    def share_credentials(self, other: "Hub") -> None:
        """Those of the server that came last are the valid ones of the shared runner."""
        other._secret = self._secret

    def hello(self, **changes: Any) -> messages.RunnerHello:
        return deliveries.runner_hello(self.runner_id, **changes)

    def session(self) -> RunnerSession:
        (session,) = self.server.registry.of_runner[self.runner_id].values()
        return session

    async def job(self, kind: str = "PLAN", module_id: str | None = None) -> str:
        return await self.crew.rows.job(module_id or await self.crew.rows.module(), kind=kind)

    async def until(self, is_so: Any) -> None:
        """Wait for something that is no event of ours: a session that has gone, say."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not is_so():
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def stalled(self) -> AsyncGenerator[None]:
        """No attempt can be written for as long as this lasts; only PostgreSQL has such a lock."""
        async with held_open(self.server.db, lambda tx: tx.run("LOCK TABLE attempts IN EXCLUSIVE MODE")):
            yield


@asynccontextmanager
async def listening(runner: SimulatedRunner) -> AsyncGenerator[Hub]:
    record, secret = await declared_runner(runner.server.db, "crew")
    # Tests remove it, which is refused as long as it is declared.
    await change_runners(runner.rows.db, record.id, is_declared=False)
    await runner.instance.share()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started = asyncio.Event()
        serving = asyncio.create_task(serve.serve(runner.server, listener, started, runner.app.app))
        await started.wait()
        port: int = listener.getsockname()[1]
        try:
            yield Hub(runner, f"ws://127.0.0.1:{port}/runnerhub", record.id, secret)
        finally:
            runner.server.closing.set()
            await serving


def executor_hello(ref: AttemptRef) -> messages.ExecutorHello:
    return messages.ExecutorHello(ref.job_id, ref.attempt, "0.1.0", version.OLDEST_VERSION, version.NEWEST_VERSION)


def ref_of(granted: Granted) -> AttemptRef:
    return AttemptRef(granted.spec.job_id, granted.spec.attempt)


async def refusal(client: Client) -> tuple[str, bool]:
    """Why the server ends the connection, and whether that is for good."""
    found = await client.get("refused")
    with pytest.raises(ConnectionClosed):
        await client.get()
    return found["code"], found["is_final"]
