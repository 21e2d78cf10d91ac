"""A server whose fleet process and cloud a test plays, for the jobs that deploy and remove runners."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from terracrew import ids
from terracrew.api.cloud_identities import NewIdentity
from terracrew.fleet.messages import RunJob
from terracrew.server.app import fleet_handlers
from terracrew.server.cloud_hosted import deploy_jobs
from terracrew.server.cloud_identities import service as identities
from terracrew.server.db.seam import Param
from terracrew.server.deployments import store
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.fleet_jobs import reads as fleet_reads
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.fleet_jobs.loop import FleetJobs
from tests.builders.job_rows import Instance, JobRows, insert_instance
from tests.server.application import Application
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud
from tests.server.fleet_jobs.simulated_fleet import PlayedRunner

FACTS = {"cluster": "arn:cluster", "task_definition": "arn:definition:1"}
RUNNER = "/api/v1/runners/burst"


@dataclass
class Fleet:
    """A server whose fleet process the test plays."""

    application: Application
    process: PlayedRunner
    cloud: SimulatedCloud
    rows: JobRows
    version: str = "0.1.0-rc.1"
    """What instances say that they are."""

    async def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self.application.admin.made(path, body)

    async def deployment(self, runner_id: str) -> CloudDeployment | None:
        return await self.application.server.db.read(lambda tx: store.get(tx, runner_id))

    async def ended(self, made: dict[str, Any]) -> str:
        """Wait until a job has ended, and return its status and error."""
        db, who = self.application.server.db, self.application.admin.principal
        async with asyncio.timeout(20):
            while not (job := await db.read(lambda tx: fleet_jobs.find(tx, who, made["job"]["id"]))).is_terminal:
                await asyncio.sleep(0.02)
        return f"{job.status} {job.error}".strip()

    async def started(self, made: dict[str, Any]) -> str:
        """Wait until the cloud was asked for the first instance, and return its name."""
        async with asyncio.timeout(20):
            while not self.cloud.started:
                await asyncio.sleep(0.02)
        return self.cloud.started[-1]

    async def hello(
        self, runner_id: str, name: str, *, passes: bool | None = True, is_on_trial: bool = True
    ) -> Instance:
        """Let an instance say hello, and report how its no-op job ended if that is given."""
        assert self.cloud.on_trial == self.cloud.started, "each of them takes no job before it has passed"
        on_trial = is_on_trial and not passes
        said: dict[str, Param] = {
            "id": ids.new("ins"),
            "name": name,
            "capacity": 4,
            "version": self.version,
            "is_on_trial": on_trial,
            "is_draining": on_trial,
            "trial_passed": passes,
            "trial_words": "" if passes is None else f"OpenTofu 1.12.0 {'ran' if passes else 'did not run'}",
        }
        instance_id = await self.rows.db.write(lambda tx: insert_instance(tx, runner_id, **said))
        return Instance(self.rows, runner_id, instance_id)

    async def steps(self, made: dict[str, Any]) -> dict[str, str]:
        job = made["job"]
        found = await self.application.server.db.read(lambda tx: fleet_reads.steps(tx, job["id"], 1))
        return {each.name: each.status for each in found}

    async def cancel(self, made: dict[str, Any]) -> None:
        db, who = self.application.server.db, self.application.admin.principal
        handlers = fleet_handlers(self.application.server.settings, self.application.server.keys, self.cloud)
        await db.write(lambda tx: fleet_jobs.cancel(tx, who, made["job"]["id"], handlers))


@asynccontextmanager
async def playing(application: Application, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Fleet]:
    monkeypatch.setattr(deploy_jobs, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(deploy_jobs, "WATCH_SECONDS", 0.05)
    server = application.server
    role = "arn:aws:iam::123456789012:role/terracrew"
    wanted = NewIdentity(name="aws", role_arn=role, region="eu-central-1")
    await identities.create(server.db, application.admin.principal, wanted)
    process, cloud = PlayedRunner(), SimulatedCloud()
    loop = FleetJobs(server.db, server.id, process, fleet_handlers(server.settings, server.keys, cloud))
    running = asyncio.create_task(loop.run())
    rows = await JobRows.of_organization(server.db, server.organization_id)
    try:
        yield Fleet(application, process, cloud, rows)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def deploy(fleet: Fleet) -> tuple[dict[str, Any], RunJob]:
    body = {"name": "burst", "identity": "aws", "settings": {"image": "registry.example.com/runner:1"}}
    made = await fleet.ask("/api/v1/runners/deploy", body)
    return made, await fleet.process.given(1)


async def deployed(fleet: Fleet) -> tuple[dict[str, Any], Instance]:
    made, job = await deploy(fleet)
    fleet.process.end(job, **FACTS)
    instance = await fleet.hello(made["runner"]["id"], await fleet.started(made))
    assert await fleet.ended(made) == "SUCCEEDED"
    return made, instance


async def until(read: Callable[[], Any], wanted: object) -> None:
    async with asyncio.timeout(20):
        while await read() != wanted:
            await asyncio.sleep(0.02)
