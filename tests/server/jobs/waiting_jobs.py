"""Builds a job whose saved plan waits for a person."""

from terracrew.protocol.events import KeptPlan, Record, Result
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import approvals, service
from terracrew.server.principals.model import Principal
from tests.builders.deliveries import delivery, fact
from tests.builders.job_rows import Instance, JobRows, begin_code, change_jobs


def waiting(version: int = 0, why: str = "") -> Record:
    return fact(Result("WAITING", why, kept=KeptPlan(version, "ab", 2, "/workspaces/x")))


class Waiting:
    """A job that needs an approval and waits for it with the plan of its first attempt."""

    def __init__(self, rows: JobRows, runner: Instance, module: str, job: str) -> None:
        self.rows, self.runner, self.module, self.id = rows, runner, module, job
        self.admin = Principal("user", "usr_1", "olga", rows.organization, is_system_admin=True)
        self.take = rows.take

    @classmethod
    async def make(cls, db: Database, rows: JobRows | None = None) -> "Waiting":
        rows = rows or await JobRows.make(db)
        await rows.administrators("usr_1")
        module, runner = await rows.module(), await rows.runner(slots=1)
        job = await rows.job(module, kind="APPLY")
        await change_jobs(rows.db, job, needs_approval=True)
        made = cls(rows, runner, module, job)
        ref = await made.start(1)
        assert await begin_code(db, ref, 0) == "approval"
        await made.take(delivery(ref, 2, waiting()))
        return made

    async def start(self, attempt: int) -> AttemptRef:
        return await self.runner.start(self.id, attempt)

    async def job(self) -> service.Job:
        return await self.rows.load(self.id)

    async def approve(self, plan: int = 1) -> service.Job:
        return await approvals.approve(self.rows.db, Registry(), self.admin, self.id, plan)
