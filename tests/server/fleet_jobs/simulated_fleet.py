"""A fleet process and a handler that the tests play: they say what an attempt reports, and see what the server asks for."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from terracrew.api.fleet_jobs import FleetJob
from terracrew.clouds.model import CloudIdentity, KubernetesCluster
from terracrew.errors import NotFound
from terracrew.fleet.messages import DeployWork, DestroyWork, RunJob, WorkEnded, WorkEvent
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs.handlers import FleetGrant, ServerReporter
from terracrew.server.fleet_process.link import FleetLost
from tests.fleet.simulated_account import deployment

IDENTITY = CloudIdentity(
    id="cid_1",
    organization_id="org_1",
    name="simulated",
    subject="s",
    audience="a",
    issuer="i",
    cloud=KubernetesCluster(api_url=""),
)


class PlayedRunner:
    """It has no process: each work waits until the test ends it."""

    def __init__(self) -> None:
        self.jobs: list[RunJob] = []
        self.canceled: list[tuple[str, int]] = []
        self.aborted: list[tuple[str, int]] = []
        self.renewals = 0
        self._open: dict[tuple[str, int], tuple[Callable[[WorkEvent], None], asyncio.Future[WorkEnded]]] = {}
        self._changed = asyncio.Condition()

    async def run(self, job: RunJob, take: Callable[[WorkEvent], None]) -> WorkEnded:
        waiting: asyncio.Future[WorkEnded] = asyncio.get_running_loop().create_future()
        self._open[job.job_id, job.attempt] = take, waiting
        async with self._changed:
            self.jobs.append(job)
            self._changed.notify_all()
        return await waiting

    def cancel(self, job_id: str, attempt: int) -> None:
        self.canceled.append((job_id, attempt))

    def abort(self, job_id: str, attempt: int) -> None:
        self.aborted.append((job_id, attempt))

    def keep_running(self) -> None:
        self.renewals += 1

    async def given(self, count: int) -> RunJob:
        """Wait until so many works were given, and return the last of them."""
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: len(self.jobs) >= count)
        return self.jobs[count - 1]

    def report(self, job: RunJob, *events: WorkEvent) -> None:
        for event in events:
            self._open[job.job_id, job.attempt][0](event)

    def end(self, job: RunJob, outcome: str = "succeeded", error: str = "", **facts: str) -> None:
        ended = WorkEnded(job.job_id, job.attempt, outcome, error, facts)  # pyright: ignore[reportArgumentType]
        self._open[job.job_id, job.attempt][1].set_result(ended)

    def crash(self, job: RunJob) -> None:
        self._open[job.job_id, job.attempt][1].set_exception(FleetLost("the fleet process has ended: signal 9"))


class PlayedHandler:
    """Deploys; removes, if the job was canceled before its attempt. It remembers the ends."""

    def __init__(self) -> None:
        self.later_steps: Sequence[tuple[str, str]] = ()
        self.refusal = ""
        self.wait_seconds = 0.0
        self.ends: list[tuple[str, dict[str, str]]] = []
        self.part: Callable[[ServerReporter], object] | None = None

    async def on_claim(self, tx: Tx, job: FleetJob) -> FleetGrant:
        del tx
        if self.refusal:
            raise NotFound(self.refusal)
        work = DestroyWork(deployment()) if job.is_unwinding else DeployWork(deployment(), "tcw_" + "x" * 43)
        return FleetGrant(IDENTITY, work)

    async def before(self, job: FleetJob, reporter: ServerReporter) -> None:
        del job
        if self.wait_seconds:
            reporter.begin("drain", "Its jobs end")
            await reporter.wait(self.wait_seconds)
            reporter.done("drain")

    async def after(self, job: FleetJob, facts: Mapping[str, str], reporter: ServerReporter) -> dict[str, str]:
        del job
        if self.part is not None:
            await self.part(reporter)  # pyright: ignore[reportGeneralTypeIssues]
        return {**facts, "hello": "yes"}

    async def on_end(self, tx: Tx, job: FleetJob, facts: Mapping[str, str]) -> None:
        end = job.status.value, dict(facts)
        tx.on_commit(lambda: self.ends.append(end))
