"""Applies the plans that a run of a group has made, as they were shown: each by a job of its own."""

import msgspec

from terracrew.errors import Conflict, TerracrewError
from terracrew.server.db.seam import Database, Tx
from terracrew.server.group_runs import service, store
from terracrew.server.group_runs.model import GroupRun, RunModule
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.apply_plan import Apply, ApplyPlan
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import plan_offers
from terracrew.server.tree.groups import service as groups


class AppliedPlan(msgspec.Struct, frozen=True):
    path: str
    """The path of the module."""
    job_id: str | None = None
    job_number: int | None = None
    """The job that applies its plan; null if none does."""
    problem: str = ""
    """Why no job applies it."""


class AppliedPlans(msgspec.Struct, frozen=True):
    """What became of the plans of a run that would change something."""

    items: list[AppliedPlan]


async def apply_plans(db: Database, apply: Apply, who: Principal, reference: str, run_id: str) -> AppliedPlans:
    """Apply all plans of a PLAN run that can still be applied, those of modules whose outputs others use first.

    Each is applied as it was made, or its job asks again: no order of the jobs applies something that nobody has seen.
    """

    async def read(tx: Tx) -> list[tuple[RunModule, str]]:
        run = await _run(tx, who, reference, run_id)
        modules = {each.job_id: each for each in await store.modules(tx, run.id) if each.job_id is not None}
        problems = await plan_offers.problems(tx, await jobs.get_many(tx, sorted(modules)))
        found = [(modules[job_id], why) for job_id, why in problems.items()]
        return sorted(found, key=lambda each: (each[0].position, each[0].path))

    items = [
        AppliedPlan(module.path, problem=why) if why else await _applied(apply, who, module)
        for module, why in await db.read(read)
    ]
    if not items:
        raise Conflict("no plan of this run would change anything, so there is nothing to apply")
    return AppliedPlans(items)


async def _applied(apply: Apply, who: Principal, module: RunModule) -> AppliedPlan:
    try:
        made = await apply(who, module.job_id or "", ApplyPlan())
    except TerracrewError as error:
        return AppliedPlan(module.path, problem=error.message)
    return AppliedPlan(module.path, made.job.id, made.job.number)


async def _run(tx: Tx, who: Principal, reference: str, run_id: str) -> GroupRun:
    run = await service.find(tx, who, reference, run_id)
    place = authorize.group(run.organization_id, run.path)
    await authorize.require(tx, who, Verb.JOB_RUN, place, groups.unseen(reference))
    if run.type != "PLAN":
        raise Conflict(f"this run is {run.type}: only the plans of a PLAN are applied later")
    return run
