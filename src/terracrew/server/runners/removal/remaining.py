"""Says what a runner still has to finish, and who would be left without a runner; both name only what the caller may see."""

from collections.abc import Iterable

from terracrew.api.runners import Dependents, Remaining, RemainingJob, Runner
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service, store
from terracrew.server.runners.removal import reads

MAX_JOBS = 100
MAX_MODULES = 1001
"""How many modules are counted; one more than a message needs to say "more than 1000"."""
MAX_NAMED_MODULES = 5
_MAX_PINNED_READ = 100


async def show(tx: Tx, who: Principal, reference: str) -> Remaining:
    """Return what a runner that the caller may see still has to finish."""
    return await of(tx, who, await service.find(tx, who, reference, Verb.RUNNER_READ))


async def of(tx: Tx, who: Principal, runner: Runner) -> Remaining:
    found = await reads.counts(tx, runner.id)
    job_count, delivering = (found["jobs"], found["delivering"]) if found else (0, 0)
    rows = await reads.jobs(tx, runner.id, MAX_JOBS) if job_count else []
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    return Remaining(
        id=runner.id,
        path=runner.path,
        is_draining=runner.is_draining,
        removing_since=runner.removing_since,
        is_drained=runner.is_draining and not job_count and not delivering,
        job_count=job_count,
        jobs=[
            row_to(RemainingJob, row)
            for row in rows
            if seen.covers(authorize.module(row["organization_id"], row["module_path"]))
        ],
        delivering=delivering,
    )


async def dependents(tx: Tx, who: Principal, reference: str) -> Dependents:
    """Return which modules no other enabled runner serves. The caller must have the right to change the runner."""
    runner = await service.find(tx, who, reference, Verb.RUNNER_WRITE)
    alone = await reads.modules_of_this_runner_alone(tx, runner.id, MAX_MODULES)
    pinned = await store.pinned_modules(tx, runner.id, _MAX_PINNED_READ)
    return Dependents(
        module_count=len(alone),
        modules=await _seen(tx, who, alone),
        pinned_count=await store.count_pinned_modules(tx, runner.id),
        pinned=await _seen(tx, who, [{"organization_id": own, "path": path} for own, path in pinned]),
        waiting_plans=await reads.count_waiting_plans(tx, runner.id),
    )


async def _seen(tx: Tx, who: Principal, modules: Iterable[Row]) -> list[str]:
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    named = (row["path"] for row in modules if seen.covers(authorize.module(row["organization_id"], row["path"])))
    return [path for _, path in zip(range(MAX_NAMED_MODULES), named, strict=False)]
