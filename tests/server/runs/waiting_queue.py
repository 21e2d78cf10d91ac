"""A module with one queued job, and a runner that could take it, for the tests of reasons."""

from datetime import timedelta
from typing import Any

from terracrew.api.job_views import Reason
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import decide, service
from terracrew.server.runs import reasons
from tests.builders.clock import ManualClock
from tests.builders.job_rows import Instance, JobRows, begin, change_instances, change_jobs, change_runners

LEASE = timedelta(minutes=10)
START = 1_700_000_000
"""When the tests begin: 2023-11-14 at 22:13:20."""


class Queue:
    """A module with one queued job, and a runner that could take it."""

    def __init__(self, rows: JobRows, module: str, runner: Instance, job: str, clock: ManualClock) -> None:
        self.rows, self.module, self.runner, self.job, self.clock = rows, module, runner, job, clock
        self.restart_server()

    def restart_server(self) -> None:
        self.registry = Registry(self.clock)

    async def why(self, job: str = "") -> Reason:
        found = await self.rows.load(job or self.job)
        watch = reasons.Watch(self.registry, LEASE)
        reason = await self.rows.db.read(lambda tx: reasons.why(tx, found, watch))
        return reason or Reason("offered", "")

    async def code(self, job: str = "") -> str:
        return (await self.why(job)).code

    async def set(self, sql: str, **params: Any) -> None:
        await self.rows.run(sql, now=self.clock(), **params)

    async def lose(self) -> None:
        """The attempt that has the job has begun, and has counted as lost for a minute."""
        await self.runner.has(self.job)
        await change_jobs(self.rows.db, self.job, status="PROCESSING")
        await begin(self.rows.db, AttemptRef(self.job, 1), 0)
        self.clock.advance(61)
        await service.settle(
            self.rows.db,
            AttemptRef(self.job, 1),
            lambda job, attempt, now: decide.lost(job, attempt, decide.LastContact(attempt.claimed_at, False), now),
        )
        self.clock.advance(60)


async def waiting_queue(database: Database, clock: ManualClock) -> Queue:
    rows = await JobRows.make(database)
    module, runner = await rows.module("net/vpc"), await rows.runner(slots=1)
    made = Queue(rows, module, runner, await rows.job(module, kind="APPLY"), clock)
    clock.advance(30)  # the server has listened for long enough
    await runner.heartbeat()
    await change_instances(made.rows.db, engines={"tofu": "1.12.6"})
    await change_runners(made.rows.db, worker_token_sha256="x")
    return made
