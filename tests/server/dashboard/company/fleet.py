"""Fleet jobs for pages: a deployment that runs, one that failed and whose server was lost before, and a removal that waits."""

from datetime import timedelta

from terracrew.api.fleet_jobs import FleetJob, FleetJobType, NewFleetJob
from terracrew.fleet.messages import LinePrinted, StepBegun, StepDone, StepFailed, WorkEvent
from terracrew.server.db.seam import Database
from terracrew.server.fleet_jobs import decide, service, store
from terracrew.server.fleet_jobs.writing import AttemptLog
from terracrew.server.principals.model import SYSTEM
from terracrew.server.tree.groups import store as groups

ROLE = "arn:aws:iam::123456789012:role/terracrew-burst-task"
TASK = "arn:aws:ecs:eu-central-1:123456789012:task/terracrew/5d0f8a21b7"
SERVER = "srv_of_somebody_else"


class FleetCompany:
    def __init__(self, db: Database, organization_id: str) -> None:
        self._db, self._organization_id = db, organization_id

    async def queued(self, type_: FleetJobType, target: str, name: str = "payments/prod/burst") -> FleetJob:
        group = await self._db.read(lambda tx: groups.at(tx, self._organization_id, ""))
        assert group is not None
        new = NewFleetJob(
            type=type_,
            organization_id=self._organization_id,
            group_id=group.id,
            target_id=target,
            target_name=name,
            runner_id=target if target.startswith("rnr") else None,
            identity_id="cid_1",
        )
        return await self._db.write(lambda tx: service.create(tx, SYSTEM, new))

    async def claimed(self, job: FleetJob) -> AttemptLog:
        claimed = decide.claim(job, job.attempt, SERVER, job.due_at, is_target_busy=False)
        assert claimed is not None
        await self._db.write(lambda tx: store.save(tx, job, claimed))
        return AttemptLog(self._db, claimed, SERVER, (("hello", "Says hello"),))

    async def running(self) -> tuple[FleetJob, AttemptLog]:
        job = await self.queued(FleetJobType.DEPLOY_WORKER, "rnr_running")
        log = await self.claimed(job)
        await report(
            log,
            StepBegun(job.id, 1, "quota", "vCPU quota is 6, 2 used"),
            StepDone(job.id, 1, "quota", "", "needs 4"),
            StepBegun(job.id, 1, "role", "Task role"),
            StepDone(job.id, 1, "role", ROLE, ""),
            StepBegun(job.id, 1, "task", "First task"),
        )
        log.describe("task", "pulling the image, 21 s of about 40 s", TASK)
        await log.flush()
        return job, log

    async def failed(self) -> FleetJob:
        job = await self.queued(FleetJobType.DEPLOY_WORKER, "rnr_failed")
        log = await self.claimed(job)
        await report(log, LinePrinted(job.id, 1, "IAM does not know the role yet: asking again in 2 s"))
        lost = decide.lose(log.job, 1, SERVER, "the fleet process has ended: signal 9", job.created_at)
        assert lost is not None
        before = await self._load(job)
        await self._db.write(lambda tx: store.save(tx, before, lost))
        log = await self.claimed(lost)
        await report(
            log,
            StepBegun(job.id, 2, "role", "Task role"),
            StepDone(job.id, 2, "role", ROLE, ""),
            StepBegun(job.id, 2, "pass", "Give the role to tasks"),
            StepFailed(job.id, 2, "pass", "iam:PassRole is missing", "paste the policy of the identity again"),
        )
        before = await self._load(job)
        after = decide.finish(
            before, 2, SERVER, "failed", "iam:PassRole is missing", job.created_at + timedelta(seconds=9)
        )
        assert after is not None
        await self._db.write(lambda tx: store.save(tx, before, after))
        return job

    async def waiting(self) -> FleetJob:
        return await self.queued(FleetJobType.DESTROY_WORKER, "rnr_waiting")

    async def _load(self, job: FleetJob) -> FleetJob:
        found = await self._db.read(lambda tx: store.get(tx, job.id))
        assert found is not None
        return found


async def report(log: AttemptLog, *events: WorkEvent) -> None:
    for event in events:
        log.take(event)
    await log.flush()
