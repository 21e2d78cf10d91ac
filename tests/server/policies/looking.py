"""Builds a module whose plans policies look at, and lets its runner plan and ask for permission to apply."""

import hashlib
import json
from typing import Any

import msgspec

from terracrew.api.jobs import Job
from terracrew.api.policies import NewPlanPolicy, PolicyActivation, PolicyView
from terracrew.plan_diff import plan_json
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.protocol import messages
from terracrew.protocol.events import PlanShown, PlanSummary, ResourceChange
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database
from terracrew.server.jobs import store
from terracrew.server.policies import store as policy_store
from terracrew.server.policies.model import PolicyResult
from terracrew.server.policies.opa import Opa, OpaBusy, PolicyOutcome
from terracrew.server.policies.service import Policies
from terracrew.server.principals.model import Principal
from tests.builders.deliveries import RUNNING, delivery, fact
from tests.builders.job_rows import Instance, JobRows, begin

NO_DELETE = """package terracrew

deny contains sprintf("%s is deleted", [change.address]) if {
    some change in input.plan.resource_changes
    "delete" in change.change.actions
}
"""
NEVER = """package terracrew

deny contains "nothing is applied here" if input.module.path
"""
PLAN = "ab" * 32
ADDS_ONE = PlanSummary(add=1, existing=1, resources=[ResourceChange("terraform_data.a", "create")])


def described(action: str) -> dict[str, Any]:
    return {"resource_changes": [{"address": "terraform_data.a", "change": {"actions": [action]}}]}


class Looking:
    def __init__(self, rows: JobRows, runner: Instance, module: str, who: Principal) -> None:
        self.rows, self.runner, self.module, self.who = rows, runner, module, who
        self.opa = Opa()
        self.policies = Policies(rows.db, self.opa)

    @classmethod
    async def make(cls, db: Database) -> "Looking":
        rows = await JobRows.make(db)
        await rows.administrators("usr_1")
        who = Principal("user", "usr_1", "olga", rows.organization, is_system_admin=True)
        return cls(rows, await rows.runner(slots=100), await rows.module(), who)

    async def policy(self, rego: str = NO_DELETE, *, is_active: bool = True, **values: Any) -> PolicyView:
        new = msgspec.convert({"name": "rule", "place": "", "rego": rego} | values, NewPlanPolicy)
        made = await self.policies.create(self.who, new)
        return await self.activate(made.path) if is_active else made

    async def activate(self, path: str, version: int | None = None) -> PolicyView:
        return await self.policies.activate(self.who, path, PolicyActivation(version=version))

    async def planned(
        self, action: str = "create", kind: str = "APPLY", *, has_json: bool = True, module: str = ""
    ) -> AttemptRef:
        """Let a job make a plan, which its runner describes."""
        job_id = await self.rows.job(module or self.module, kind=kind)
        ref = await self.runner.start(job_id)
        facts = [RUNNING, fact(ADDS_ONE)]
        if has_json:
            facts.append(self.shown(action))
        await self.rows.take(delivery(ref, 2, *facts))
        return ref

    def shown(self, action: str, plan_sha256: str = PLAN) -> Any:
        content = plan_json.pack(PlanJson(msgspec.Raw(json.dumps(described(action)).encode())))
        return fact(PlanShown(hashlib.sha256(content).hexdigest(), content, plan_sha256))

    async def begin(
        self, ref: AttemptRef, plan_sha256: str = PLAN, plan_attempt: int | None = None
    ) -> messages.Begun | messages.BeginRefused:
        return await begin(self.rows.db, ref, 0, plan_attempt, plan_sha256=plan_sha256)

    async def code(self, ref: AttemptRef, plan_sha256: str = PLAN) -> str:
        return getattr(await self.begin(ref, plan_sha256), "code", "begun")

    async def job(self, ref: AttemptRef) -> Job:
        return await self.rows.db.read(lambda tx: store.get(tx, ref.job_id))

    async def results(self, ref: AttemptRef) -> list[PolicyResult]:
        return await self.rows.db.read(lambda tx: policy_store.results(tx, ref.job_id))


class Counting(Opa):
    """The program, how often it was asked, and how often it is busy first."""

    def __init__(self, busy: int = 0) -> None:
        super().__init__()
        self.busy, self.asked = busy, 0

    async def evaluate(self, rego: str, inputs: Any, seconds: float = 0.0, **more: Any) -> list[PolicyOutcome]:
        self.asked += 1
        if self.asked <= self.busy:
            raise OpaBusy("the server evaluates other policies at this moment: try again")
        return await super().evaluate(rego, inputs, seconds, **more)
