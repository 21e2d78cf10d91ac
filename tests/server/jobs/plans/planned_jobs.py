"""Builds a PLAN job that has kept its plan, and people who apply it."""

from pathlib import Path
from typing import Any

from terracrew.api.jobs import ApplyPlan, Job, NewJob, Plan
from terracrew.protocol.events import KeptPlan, PlanSummary, ResourceChange, Result
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import JobType
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_store
from terracrew.server.jobs import apply_plan, create
from terracrew.server.jobs.create import JobRequest
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals.model import Principal
from tests.builders.deliveries import DONE, delivery, fact, state
from tests.builders.job_rows import KEYS, Instance, JobRows, begin, begin_code, change_states

ADDS_ONE = PlanSummary(add=1, existing=1, resources=[ResourceChange("terraform_data.a", "create")])
NOTHING = PlanSummary(existing=1, unchanged=1)
HASH = "ab" * 32


class Planned:
    """A module whose PLAN job has succeeded, and has kept its plan. Everybody is somebody with a role at the organization."""

    def __init__(self, rows: JobRows, module: str, runner: Instance) -> None:
        self.rows, self.module, self.runner = rows, module, runner
        self.plan_job = ""

    @classmethod
    async def make(cls, db: Database, summary: PlanSummary = ADDS_ONE, **asked: Any) -> "Planned":
        rows = await JobRows.make(db)
        made = cls(rows, await rows.module(), await rows.runner())
        made.plan_job = await made.plan(await made.somebody("alice", "operator"), summary, **asked)
        return made

    async def somebody(self, name: str, role: str = "operator") -> Principal:
        user_id = f"usr_{name}"
        await self.rows.insert("users", id=user_id, name=name)
        own = self.rows.organization
        bound = ("user", user_id, role, "group", "", "test", None)
        await self.rows.db.write(lambda tx: role_store.bind_role(tx, own, *bound))
        return Principal("user", user_id, name, own)

    async def plan(self, who: Principal, summary: PlanSummary = ADDS_ONE, **asked: Any) -> str:
        """Run a PLAN job to its end, and return its id."""
        job = await self.create(who, NewJob(JobType.PLAN, **asked))
        ref = await self.runner.start(job.id)
        version = await self.state_version()
        has_changes = bool(summary.resources or summary.outputs)
        kept = KeptPlan(version, "cd" * 32, 2, f"/workspaces/{job.id}.1", HASH) if has_changes else None
        await self.rows.take(delivery(ref, 2, fact(summary), fact(Result("SUCCEEDED", kept=kept))))
        return job.id

    async def create(self, who: Principal, asked: NewJob) -> Job:
        request = JobRequest(who, self.module, asked)
        [made] = await self.rows.db.write(lambda tx: create.create_all(tx, [request], keys=KEYS, roots=[]))
        assert isinstance(made, create.Created), made
        return made.job

    async def apply(self, who: Principal, job: str = "", *, is_destroy: bool = False) -> Job:
        applier = apply_plan.applier(self.rows.db, Registry(), KEYS, list[Path]())
        return (await applier(who, job or self.plan_job, ApplyPlan(is_destroy))).job

    async def change_state(self, who: Principal) -> None:
        """Let another job apply something, so that the module has another state."""
        job = await self.create(who, NewJob(JobType.APPLY))
        ref = await self.runner.start(job.id)
        assert await begin_code(self.rows.db, ref, await self.state_version()) == "begun"
        record, received = state(await self.state_version() + 1)
        await self.rows.take(delivery(ref, 2, record, DONE, received={2: received}))
        # It is not encrypted, as the next claim expects.
        await change_states(self.rows.db, content=None, object="x")

    async def state_version(self) -> int:
        sql = "SELECT state_version FROM modules WHERE id = :id"
        row = await self.rows.db.read(lambda tx: tx.one(sql, id=self.module))
        assert row is not None
        return row["state_version"]

    async def plan_row(self, job: str, attempt: int) -> Plan:
        async def read(tx: Tx) -> Plan | None:
            return await plan_store.get(tx, job, attempt)

        found = await self.rows.db.read(read)
        assert found is not None
        return found

    async def start(self, job: Job) -> AttemptRef:
        return await self.runner.start(job.id, job.attempt)

    async def begin(self, job: Job) -> str:
        """Let the runner continue with the plan of another job, and return what it is answered when it asks for permission."""
        ref = await self.start(job)
        answer = await begin(self.rows.db, ref, await self.state_version(), 0, plan_sha256=HASH)
        return getattr(answer, "code", "begun")
