"""Builds jobs of the fleet in a database, and moves them as a server does."""

from terracrew import ids
from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, NewFleetJob
from terracrew.server.db.seam import Database
from terracrew.server.fleet_jobs import service, store
from terracrew.server.principals.model import SYSTEM
from tests.builders.job_rows import JobRows


class FleetRows:
    def __init__(self, rows: JobRows) -> None:
        self.rows = rows

    @property
    def db(self) -> Database:
        return self.rows.db

    def new(self, type_: FleetJobType = FleetJobType.DEPLOY_WORKER, target: str = "") -> NewFleetJob:
        target = target or ids.new("rnr")
        return NewFleetJob(
            type=type_,
            organization_id=self.rows.organization,
            group_id=self.rows.root,
            target_id=target,
            target_name="burst",
            runner_id=target if target.startswith("rnr") else None,
            identity_id=ids.new("cid"),
        )

    async def job(self, type_: FleetJobType = FleetJobType.DEPLOY_WORKER, target: str = "") -> FleetJob:
        new = self.new(type_, target)
        return await self.db.write(lambda tx: service.create(tx, SYSTEM, new))

    async def load(self, job: FleetJob) -> FleetJob:
        found = await self.db.read(lambda tx: store.get(tx, job.id))
        assert found is not None
        return found

    async def save(self, before: FleetJob, after: FleetJob) -> None:
        await self.db.write(lambda tx: store.save(tx, before, after))

    async def job_in(self, status: FleetJobStatus) -> FleetJob:
        """Return a job that came to its status by the table."""
        job = await self.job()
        path = {"QUEUED": [], "CLAIMED": ["CLAIMED"], "CANCELED": ["CANCELED"]}.get(
            status, ["CLAIMED", "PROCESSING", *([status.value] if status != "PROCESSING" else [])]
        )
        for name in path:
            after = job.to(FleetJobStatus(name), job.created_at, **owner(FleetJobStatus(name), job))
            await self.save(job, after)
            job = after
        return await self.load(job)


def owner(status: FleetJobStatus, job: FleetJob) -> dict[str, object]:
    """Return what a job of this status must have."""
    active: dict[str, object] = {"server_id": "srv_1", "lease_until": job.created_at, "started_at": job.created_at}
    return active if status in ("CLAIMED", "PROCESSING") else {}
