"""What DESTROY_WORKER means: the runner drains, the cloud removes everything that was made for it, and its record disappears."""

from collections.abc import Mapping, Sequence

import msgspec

from terracrew.api.deployments import DeploymentStatus
from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus
from terracrew.api.runners import RunnerChange
from terracrew.errors import Conflict
from terracrew.fleet.messages import DestroyWork
from terracrew.server.cloud_hosted import starting
from terracrew.server.cloud_hosted.deploy_jobs import described
from terracrew.server.cloud_hosted.deploying import FORCE, WAS_DRAINING
from terracrew.server.cloud_hosted.describing import ServerFacts
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.fleet_jobs.handlers import FleetGrant, ServerReporter
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runners import service as runners
from terracrew.server.runners.removal import reads as removal_reads
from terracrew.server.runners.removal import service as removal

DRAIN = "drain"
LOOK_SECONDS = 2.0


class DestroyHandler:
    later_steps: Sequence[tuple[str, str]] = ()

    def __init__(self, server: ServerFacts) -> None:
        self._server = server

    async def on_claim(self, tx: Tx, job: FleetJob) -> FleetGrant:
        found = await described(tx, job, self._server)
        return FleetGrant(found.identity, DestroyWork(found.deployment))

    async def before(self, job: FleetJob, reporter: ServerReporter) -> None:
        """Wait until the jobs of the runner have ended, unless it is removed by force, and until nothing of it is being started.

        An instance that the cloud starts after the removal has listed them would be left, and nobody would know of it.
        """
        reporter.begin(DRAIN, "Its jobs end")
        is_forced = job.spec.get(FORCE) == "true"
        while True:
            left = 0 if is_forced else await reporter.write(lambda tx: _unfinished(tx, job))
            if not left:
                break
            reporter.describe(DRAIN, f"{left} {'job has' if left == 1 else 'jobs have'} not ended")
            await reporter.wait(LOOK_SECONDS)
        while asked := await reporter.write(lambda tx: starting.asking(tx, job.target_id)):
            reporter.describe(DRAIN, f"the cloud has not answered whether it starts {', '.join(asked)}")
            await reporter.wait(LOOK_SECONDS)
        await reporter.write(lambda tx: _begin(tx, job))
        reporter.done(DRAIN, words="by force" if is_forced else "no job is left")

    async def after(self, job: FleetJob, facts: Mapping[str, str], reporter: ServerReporter) -> dict[str, str]:
        del job, facts, reporter
        return {}

    async def on_end(self, tx: Tx, job: FleetJob, facts: Mapping[str, str]) -> None:
        """Delete the record after a success. A cancel before anything was removed takes the removal back."""
        del facts
        before = await store.hold(tx, job.target_id)
        if before is None:
            return
        if job.status is FleetJobStatus.SUCCEEDED:
            await removal.delete(tx, SYSTEM, await runners.hold(tx, SYSTEM, job.target_id))
            return
        if job.status is FleetJobStatus.CANCELED and (before.facts or job.started_at is None):
            status: DeploymentStatus = "deployed" if before.facts else "failed"
            await store.save(tx, before, msgspec.structs.replace(before, status=status))
            if WAS_DRAINING not in job.spec:
                await runners.change(tx, SYSTEM, job.target_id, RunnerChange(is_draining=False))
            return
        await store.save(tx, before, msgspec.structs.replace(before, status="failed"))


async def _unfinished(tx: Tx, job: FleetJob) -> int:
    """Return how many jobs of the runner have not ended, or have not delivered everything."""
    found = await removal_reads.counts(tx, job.target_id)
    return 0 if found is None else int(found["jobs"]) + int(found["delivering"])


async def _begin(tx: Tx, job: FleetJob) -> None:
    """Forget what was made, because from now on it is being removed, and no instance can be started with it."""
    before = await store.hold(tx, job.target_id)
    if before is None:
        raise Conflict(f"`{job.target_name}` was removed")
    await store.save(tx, before, msgspec.structs.replace(before, status="removing", facts={}))
