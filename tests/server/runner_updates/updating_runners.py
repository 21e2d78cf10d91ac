"""A server with its hub, the loop of its fleet jobs and a self-hosted runner whose instances the tests play."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from terracrew.api.fleet_jobs import FleetJob
from terracrew.protocol.messages import UpdateReport
from terracrew.server.context import Server
from terracrew.server.fleet_jobs import reads
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.fleet_jobs import store as fleet_store
from terracrew.server.fleet_jobs.loop import FleetJobs
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.principals.model import Principal
from terracrew.server.releases import store as releases
from terracrew.server.runner_updates import service
from tests.server.fleet_jobs.simulated_fleet import PlayedRunner
from tests.server.hub.hub_clients import Client, Hub
from tests.server.releases.release_rows import new_release, wheel

OLD, NEW = "0.1.0-rc.1", "0.1.0-rc.2"
TIMEOUT_SECONDS = 20.0


class UpdatingRunner:
    def __init__(self, hub: Hub, runner_id: str, token: str) -> None:
        self.hub, self.runner_id, self.token = hub, runner_id, token
        self.process = PlayedRunner()
        """The fleet process, which has no part in these jobs."""

    @property
    def server(self) -> Server:
        return self.hub.server

    @property
    def who(self) -> Principal:
        return self.hub.crew.app.admin.principal

    @classmethod
    async def make(cls, hub: Hub) -> "UpdatingRunner":
        made = await hub.crew.app.admin.made(
            "/api/v1/runners/register", {"name": "own", "group": "", "allow_multiple_instances": True}
        )
        environment = made["environment"]
        organization, secret = (
            environment[f"TERRACREW_RUNNER__{name}"] for name in ("ORGANIZATION_ID", "CREDENTIALS__WORKER_TOKEN")
        )
        token = await hub.server.identity.tokens.exchange(f"{organization}:{made['id']}", secret, "127.0.0.1")
        await hub.server.db.write(lambda tx: releases.insert(tx, new_release(NEW, artifacts=[wheel(NEW)])))
        return cls(hub, made["id"], token.access_token)

    @asynccontextmanager
    async def instance(
        self, name: str = "one", version: str = OLD, hub: Hub | None = None, **hello: Any
    ) -> AsyncGenerator[Client]:
        wanted = {"is_self_updating": True, "instance_key": name * 8, "version": version} | hello
        async with (hub or self.hub).connected(self.token) as client:
            answer = await client.ask(self.hub.hello(runner_id=self.runner_id, instance=name, **wanted))
            assert answer["type"] == "welcome", answer
            yield client

    async def update(self, version: str = NEW) -> FleetJob:
        return await self.server.db.write(lambda tx: service.update(tx, self.who, self.runner_id, version))

    async def cancel(self, job: FleetJob) -> None:
        handlers = self.server.fleet_handlers
        await self.server.db.write(lambda tx: fleet_jobs.cancel(tx, self.who, job.id, handlers))

    @asynccontextmanager
    async def working(self, server: Server | None = None) -> AsyncGenerator[None]:
        """Meanwhile a server runs its fleet jobs, and tells its connections what concerns them."""
        server = server or self.server
        async with AsyncExitStack() as stack:
            for loop in (
                FleetJobs(server.db, server.id, self.process, server.fleet_handlers).run(),
                HubNotifier(server.hub.runners).run(),
            ):
                task = asyncio.create_task(loop)
                stack.push_async_callback(_ended, task)
            yield

    async def ended(self, job: FleetJob) -> tuple[str, str]:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                found = await self.server.db.read(lambda tx: fleet_store.get(tx, job.id))
                assert found is not None
                if found.is_terminal:
                    return found.status.value, found.error
                await asyncio.sleep(0.02)

    async def steps(self, job: FleetJob, attempt: int = 1) -> list[tuple[str, str, str]]:
        """The words, the status and the detail of each step."""
        found = await self.server.db.read(lambda tx: reads.steps(tx, job.id, attempt))
        return [(each.words, each.status, each.detail) for each in found]

    async def until_step(self, job: FleetJob, words: str, attempt: int = 1) -> None:
        """Wait until a step has begun."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not any(words in each[0] for each in await self.steps(job, attempt)):
                await asyncio.sleep(0.02)

    async def until_says(self, job: FleetJob, detail: str, attempt: int = 1) -> None:
        """Wait until a step says this."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not any(detail in each[2] for each in await self.steps(job, attempt)):
                await asyncio.sleep(0.02)


async def asked(client: Client) -> str:
    """Wait until an instance is asked for an update, and return the id of that."""
    found = await client.get("update")
    assert found["version"] == NEW
    assert [each["sha256"] for each in found["artifacts"]] == ["ab" * 32]
    return found["update_id"]


async def report(client: Client, update_id: str, *steps: str) -> None:
    for step in steps:
        await client.send(UpdateReport(update_id, "running", step))


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
