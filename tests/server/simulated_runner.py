"""Runs attempts on a real server; the test itself is the runner and the executor, and delivers what it wants."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256

import httpx
import uvicorn
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.client.sse import Event, Parser
from terracrew.protocol import events
from terracrew.protocol.events import Record, StateFact
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Credentials, JobSpec, Step
from terracrew.server.context import Server
from terracrew.server.hub.executors import event_contents
from terracrew.server.jobs import decide
from terracrew.server.state.model import Received
from tests.builders.deliveries import RUNNING, delivery
from tests.builders.job_rows import Instance, JobRows, begin
from tests.server.application import Application as App
from tests.server.application import Person

TIMEOUT_SECONDS = 20.0


class SimulatedAttempt:
    """One attempt, owned by the test."""

    def __init__(self, runner: "SimulatedRunner", ref: AttemptRef, credentials: Credentials, module_id: str) -> None:
        self.crew, self.ref, self.credentials, self.module_id = runner, ref, credentials, module_id
        self.next = 1

    @property
    def path(self) -> str:
        return f"/runnerhub/attempts/{self.ref.job_id}/{self.ref.attempt}"

    @property
    def executor(self) -> Person:
        return self.crew.bearer(self.credentials.hub)

    @property
    def engine(self) -> Person:
        return self.crew.bearer(self.credentials.api)

    async def deliver(
        self, *records: Record, first: int | None = None, received: dict[int, Received] | None = None
    ) -> int:
        mark = await self.crew.rows.take(delivery(self.ref, first or self.next, *records, received=received))
        self.next = mark + 1
        return mark

    async def begin(self) -> None:
        version = await self.crew.app.scalar("SELECT state_version FROM modules WHERE id = :id", id=self.module_id)
        await begin(self.crew.server.db, self.ref, version)

    def seal(self, plain: bytes, owner: str = "") -> bytes:
        nonce = os.urandom(12)
        aad = owner or f"{self.ref.job_id}:{self.ref.attempt}"
        return nonce + AESGCM(self.credentials.state_key).encrypt(nonce, plain, aad.encode())

    async def prepared(
        self,
        plain: bytes,
        *,
        serial: int = 1,
        lineage: str = "a",
        is_inline: bool = True,
        sealed: bytes | None = None,
        resources: int | None = None,
    ) -> Received | None:
        """What the hub makes of a state in the attempt's next event."""
        told = StateFact(sha256(plain).hexdigest(), len(plain), serial, lineage, is_inline, resources=resources)
        sealed = sealed or (self.seal(plain) if is_inline else b"")
        return await event_contents.prepare(
            self.crew.server.hub.executors,
            self.ref,
            self.module_id,
            self.credentials.state_key,
            self.next,
            told,
            sealed,
        )

    async def write(
        self,
        plain: bytes,
        *,
        serial: int = 1,
        lineage: str = "a",
        is_inline: bool = True,
        resources: int | None = None,
    ) -> int:
        """Deliver a state as the hub would; the mark."""
        received = await self.prepared(plain, serial=serial, lineage=lineage, is_inline=is_inline, resources=resources)
        told = StateFact(sha256(plain).hexdigest(), len(plain), serial, lineage, is_inline)
        record = next(events.unpack(events.pack_state(told, b"", Step.APPLY, time.time())))
        return await self.deliver(record, received={self.next: received} if received else {})

    async def lose(self) -> None:
        """The attempt is gone for good, and its job is queued again."""
        last = await self.crew.app.scalar(
            "SELECT mark FROM attempts WHERE job_id = :id AND number = :n", id=self.ref.job_id, n=self.ref.attempt
        )
        await self.crew.rows.gone(self.ref, decide.Report("killed", last=last, is_delivered=True))

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator["Viewer"]:
        """The administrator follows the log of the job, over a socket."""
        path = f"/api/v1/jobs/{self.ref.job_id}/log/stream"
        async with self.crew.listening() as url, watching(url, self.crew.app.admin, path) as viewer:
            yield viewer


class SimulatedRunner:
    def __init__(self, app: App, rows: JobRows, instance: Instance) -> None:
        self.app, self.rows, self.instance = app, rows, instance
        self._transport = app.transport()

    @classmethod
    async def make(cls, app: App, *, knows_merge_results: bool = False) -> "SimulatedRunner":
        rows = await JobRows.of_organization(app.server.db, app.server.organization_id)
        rows.claim, rows.take = app.server.claiming.claim, app.server.ingest
        return cls(app, rows, await rows.runner(slots=100, knows_merge_results=knows_merge_results))

    @property
    def server(self) -> Server:
        return self.app.server

    async def run(self, module_id: str | None = None, kind: str = "PLAN") -> SimulatedAttempt:
        """A job that has just been claimed."""
        job_id = await self.rows.job(module_id or await self.rows.module(), kind=kind)
        return await self.again(job_id)

    async def begun(self, module_id: str | None = None) -> SimulatedAttempt:
        """An apply that has the permission to change things."""
        attempt = await self.run(module_id, kind="APPLY")
        await attempt.deliver(RUNNING)
        await attempt.begin()
        return attempt

    async def again(self, job_id: str, attempt: int = 1) -> SimulatedAttempt:
        return (await self.granted(job_id, attempt))[0]

    async def granted(self, job_id: str, attempt: int = 1) -> tuple[SimulatedAttempt, JobSpec]:
        """An attempt that has just been claimed, with the specification that its executor gets."""
        granted = await self.instance.has(job_id, attempt)
        made = SimulatedAttempt(self, AttemptRef(job_id, attempt), granted.credentials, granted.spec.module_id)
        return made, granted.spec

    def bearer(self, token: str) -> Person:
        person = Person(transport=self._transport, base_url=self.app.admin.base_url)
        person.headers["Authorization"] = f"Bearer {token}"
        return person

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        """The server on a socket of its own, for what does not end with one answer."""
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(self.app.app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
            listener.close()


class Viewer:
    """Reads a stream of server-sent events as a browser does, one event after the other."""

    def __init__(self, response: httpx.Response) -> None:
        self._parser = Parser()
        self._pieces = response.aiter_bytes()
        self._events: list[Event] = []

    async def next(self, *names: str) -> Event:
        """The next event, or the next one of these; all others are passed over."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                while not self._events:
                    self._events += self._parser.feed(await anext(self._pieces))
                event = self._events.pop(0)
                assert event.data, "a browser drops events with empty data"
                if not names or event.name in names:
                    return event

    async def rest(self) -> list[Event]:
        """Everything up to the end of the connection."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            async for piece in self._pieces:
                self._events += self._parser.feed(piece)
        return self._events


@asynccontextmanager
async def watching(url: str, who: Person, path: str, last_id: str = "") -> AsyncGenerator[Viewer]:
    headers = dict(who.headers) | ({"Last-Event-ID": last_id} if last_id else {})
    async with (
        httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS) as client,
        client.stream("GET", path) as response,
    ):
        assert response.status_code == 200, await response.aread()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield Viewer(response)
