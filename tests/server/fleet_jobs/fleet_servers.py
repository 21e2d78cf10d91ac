"""Servers of one database, each with a played fleet process and handler, whose steps the tests take."""

import asyncio

from terracrew.api.fleet_jobs import FleetJob, FleetJobType, FleetStep
from terracrew.fleet.messages import RunJob
from terracrew.server.fleet_jobs import reads, service
from terracrew.server.fleet_jobs.loop import FleetJobs
from terracrew.server.principals.model import SYSTEM
from tests.server.fleet_jobs.fleet_rows import FleetRows
from tests.server.fleet_jobs.simulated_fleet import PlayedHandler, PlayedRunner


class FleetServer:
    """One server of the database, whose steps the tests take."""

    def __init__(self, fleet: FleetRows, name: str) -> None:
        self.fleet, self.runner, self.handler = fleet, PlayedRunner(), PlayedHandler()
        self.handlers = dict.fromkeys(FleetJobType, self.handler)
        self.loop = FleetJobs(fleet.db, name, self.runner, self.handlers)

    async def cancel(self, job: FleetJob) -> FleetJob:
        return await self.fleet.db.write(lambda tx: service.cancel(tx, SYSTEM, job.id, self.handlers))


async def eventually(fleet: FleetRows, job: FleetJob, *statuses: str) -> FleetJob:
    async with asyncio.timeout(20):
        while (found := await fleet.load(job)).status not in statuses:
            await asyncio.sleep(0.01)
    return found


async def steps_of(fleet: FleetRows, job: FleetJob, attempt: int = 1) -> list[FleetStep]:
    return await fleet.db.read(lambda tx: reads.steps(tx, job.id, attempt))


async def log_of(fleet: FleetRows, job: FleetJob) -> list[str]:
    return [each.text for each in await fleet.db.read(lambda tx: reads.lines(tx, job.id, 0, 0, 20_000))]


async def begun(fleet: FleetRows, server: FleetServer, count: int = 1) -> tuple[FleetJob, RunJob]:
    job = await fleet.job()
    await server.loop.step()
    return job, await server.runner.given(count)
