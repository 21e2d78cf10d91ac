"""Rows of plans that were kept with their workspace until a person has decided about them."""

from collections.abc import Iterable, Sequence
from typing import LiteralString

from terracrew.api.jobs import Plan
from terracrew.errors import Superseded
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ENDED_STATUSES
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, assignments

PLANS = Table("plans", Plan)
MAX_KEPT_OF_MODULE = 10
"""How many plans of PLAN jobs of one module are kept: the newest ones, as long as they can be applied."""
_APPLICABLE: LiteralString = """(jobs.type = 'PLAN' AND plans.decide_by > :now
    AND EXISTS (SELECT 1 FROM modules WHERE modules.id = jobs.module_id AND modules.state_version = plans.state_version)
    AND (SELECT count(*) FROM jobs AS later JOIN plans AS newer ON newer.job_id = later.id AND newer.is_kept
        WHERE later.module_id = jobs.module_id AND later.type = 'PLAN' AND later.id > jobs.id) < :newest)"""
_UNUSED: LiteralString = f"""FROM plans JOIN jobs ON jobs.id = plans.job_id
    WHERE plans.is_kept AND plans.made_at <= :before AND ((jobs.status IN {ENDED_STATUSES} AND NOT {_APPLICABLE})
        OR jobs.plan_attempt IS NULL OR jobs.plan_attempt <> plans.attempt)"""
"""Kept plans of jobs that have ended, unless another job can apply them, and those that a job has left for another plan: it never
returns to one of them."""
_DECIDED = ("decision", "decided_by", "decided_at", "reason", "doubts", "approvals", "applied_by")
_SAVE = (
    PLANS.insert()
    + f""" ON CONFLICT (job_id, attempt) DO UPDATE SET {assignments(*_DECIDED)}
    WHERE plans.applied_by IS NULL AND (plans.decision IS NULL OR plans.decision = :decision)"""
)

# A plan is open until it is decided about or found to be overdue: what has been looked at once is not read again every second.
_OVERDUE: LiteralString = """
SELECT plans.job_id, plans.attempt, jobs.status = 'AWAITING_APPROVAL' AND jobs.plan_attempt = plans.attempt AS is_awaited
FROM plans JOIN jobs ON jobs.id = plans.job_id
WHERE plans.is_open AND plans.decision IS NULL AND plans.decide_by <= :now ORDER BY plans.decide_by LIMIT :count"""


def object_of_plan(plan: Plan) -> str:
    return object_of(plan.made_job_id, plan.made_attempt, plan.sha256)


def object_of(job_id: str, attempt: int, sha256: str) -> str:
    """Return the name of the object that holds a kept plan."""
    return f"{object_folder(job_id, attempt)}/{sha256}"


def object_folder(job_id: str, attempt: int) -> str:
    """Return where the plans that an attempt uploads are, whether the attempt saves one of them or not."""
    return f"plans/{job_id}/{attempt}"


async def get(tx: Tx, job_id: str, attempt: int) -> Plan | None:
    """Return the plan that an attempt made and kept."""
    return await PLANS.find(tx, job_id=job_id, attempt=attempt)


async def of_job(tx: Tx, job_id: str) -> list[Plan]:
    return await PLANS.all(tx, "FROM plans WHERE plans.job_id = :job_id", job_id=job_id)


async def has_waited(tx: Tx, job_id: str) -> bool:
    """Return whether a plan of this job has waited for a person before."""
    return await tx.one("SELECT 1 AS yes FROM plans WHERE job_id = :job_id LIMIT 1", job_id=job_id) is not None


async def save(tx: Tx, plan: Plan) -> None:
    """Write a new plan, the first decision about it, or the attempt that began to apply it."""
    if not await tx.run(_SAVE, **to_params(plan)):
        raise Superseded(f"the plan of attempt {plan.attempt} was decided or used in the meantime")


async def take(tx: Tx, plan: Plan, by_job_id: str, by: str) -> None:
    """Note the job that applies the plan of a PLAN job: the first one (rule 4). The stored plan belongs to the row of that job now."""
    taken = await tx.run(
        """UPDATE plans SET taken_by = :by_job_id, decision = 'approved', decided_by = :by, decided_at = :now, is_kept = false,
            is_open = false
        WHERE job_id = :job_id AND attempt = :attempt AND taken_by = '' AND decision IS NULL AND is_kept""",
        by_job_id=by_job_id,
        by=by,
        now=tx.now,
        job_id=plan.job_id,
        attempt=plan.attempt,
    )
    if not taken:
        raise Superseded("another job has taken this plan in the meantime")


async def discard(tx: Tx, plan: Plan, by: str) -> None:
    """Note that nobody may apply the plan of a PLAN job any more."""
    discarded = await tx.run(
        """UPDATE plans SET decision = 'declined', decided_by = :by, decided_at = :now, is_open = false
        WHERE job_id = :job_id AND attempt = :attempt AND taken_by = '' AND decision IS NULL""",
        by=by,
        now=tx.now,
        job_id=plan.job_id,
        attempt=plan.attempt,
    )
    if not discarded:
        raise Superseded("the plan was applied or discarded in the meantime")


async def close(tx: Tx, plans: Sequence[tuple[str, int]]) -> None:
    """Stop looking at overdue plans, named by job and attempt, that no job waits for."""
    await tx.each(
        "UPDATE plans SET is_open = false FROM batch WHERE plans.job_id = batch.job_id AND plans.attempt = batch.attempt",
        PLANS.types_of("job_id", "attempt"),
        plans,
    )


async def forget_objects(tx: Tx, plans: Sequence[tuple[str, int]]) -> None:
    """Note that the objects of these plans, named by job and attempt, are removed."""
    await tx.each(
        "UPDATE plans SET is_kept = false FROM batch WHERE plans.job_id = batch.job_id AND plans.attempt = batch.attempt",
        PLANS.types_of("job_id", "attempt"),
        plans,
    )


async def delete_of_job(tx: Tx, job_id: str) -> list[str]:
    """Delete the plans of a job and return the names of the objects that held them."""
    rows = await tx.all(
        "DELETE FROM plans WHERE job_id = :job_id RETURNING made_job_id, made_attempt, sha256, is_kept", job_id=job_id
    )
    return [object_of(row["made_job_id"], row["made_attempt"], row["sha256"]) for row in rows if row["is_kept"]]


async def unused(tx: Tx, before: float, count: int) -> list[Row]:
    """Return kept plans, made before this time, that no attempt can need any more."""
    return await tx.all(
        "SELECT plans.job_id, plans.attempt, plans.made_job_id, plans.made_attempt, plans.sha256 "
        + _UNUSED
        + " ORDER BY 1, 2 LIMIT :rows",
        before=before,
        now=tx.now,
        newest=MAX_KEPT_OF_MODULE,
        rows=count,
    )


async def count_unused(tx: Tx, before: float) -> Row | None:
    """Count the plans that `unused` would return without a limit, and their bytes."""
    return await tx.one(
        "SELECT count(*) AS count, coalesce(sum(plans.size), 0) AS bytes " + _UNUSED,
        before=before,
        now=tx.now,
        newest=MAX_KEPT_OF_MODULE,
    )


async def kept_objects(tx: Tx, attempts: Sequence[tuple[str, int]]) -> set[str]:
    """Return the objects of the kept plans that these attempts (job, number) have made."""
    rows = await tx.each(
        """SELECT batch.job_id, batch.attempt, plans.sha256 FROM batch JOIN plans ON plans.made_job_id = batch.job_id
            AND plans.made_attempt = batch.attempt AND plans.is_kept""",
        PLANS.types_of("job_id", "attempt"),
        attempts,
    )
    return {object_of(row["job_id"], row["attempt"], row["sha256"]) for row in rows}


async def overdue(tx: Tx, count: int) -> list[Row]:
    """Return open plans that nobody decided about in time, and whether their jobs still wait for a decision."""
    return await tx.all(_OVERDUE, now=tx.now, count=count)


async def state_versions(tx: Tx, job_ids: Iterable[str]) -> dict[str, int]:
    """Return from which version of its module's state the saved plan of each job was made."""
    rows = await tx.each_id(
        "SELECT plans.job_id, max(plans.state_version) AS version FROM batch JOIN plans ON plans.job_id = batch.id"
        " GROUP BY plans.job_id",
        sorted(job_ids),
    )
    return {row["job_id"]: row["version"] for row in rows}
