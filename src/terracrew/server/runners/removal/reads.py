"""Reads what a runner still has to finish, and which modules no other runner serves."""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES

MAX_CONTACT_AGE_SECONDS = 60.0
"""An attempt that was not in contact for this long delivers nothing now."""
_JOBS: LiteralString = f"""
SELECT jobs.id, jobs.number, jobs.status, jobs.claimed_at, jobs.organization_id, modules.path AS module_path,
    instances.name AS instance_name
FROM runners JOIN jobs ON jobs.runner_id = runners.id AND jobs.status IN {ACTIVE_STATUSES}
JOIN modules ON modules.id = jobs.module_id
LEFT JOIN instances ON instances.id = jobs.instance_id
WHERE runners.id = :id ORDER BY jobs.number, jobs.id LIMIT :count"""
_COUNTS: LiteralString = f"""
SELECT (SELECT count(*) FROM jobs WHERE jobs.runner_id = runners.id AND jobs.status IN {ACTIVE_STATUSES}) AS jobs,
    (SELECT count(*) FROM attempts WHERE attempts.is_in_doubt AND attempts.runner_id || '' = runners.id
        AND NOT attempts.is_gone AND NOT attempts.has_result AND attempts.heard_at > :since) AS delivering,
    EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id AND instances.is_connected) AS is_connected
FROM runners WHERE runners.id = :id"""
"""`runner_id || ''` keeps the databases from reading every attempt that the runner ever had: few attempts are in doubt."""
_IS_SERVING: LiteralString = "NOT serving.is_disabled AND serving.removing_since IS NULL AND serving.id <> :id"
_OTHER_ABOVE: LiteralString = (
    """EXISTS (SELECT 1 FROM assignments AS other JOIN runners AS serving ON serving.id = other.runner_id
        WHERE other.organization_id = own.organization_id AND other.kind = 'group' AND (other.path = ''
            OR substr(own.path || '/', 1, length(other.path) + 1) = other.path || '/')
            AND """
    + _IS_SERVING
    + ")"
)
_OTHER_AT: LiteralString = (
    """EXISTS (SELECT 1 FROM assignments AS other JOIN runners AS serving ON serving.id = other.runner_id
        WHERE other.place_id = place.id AND """
    + _IS_SERVING
    + ")"
)
_ALONE: LiteralString = (
    """WITH RECURSIVE alone (id) AS (
    SELECT own.place_id FROM assignments AS own WHERE own.runner_id = :id AND own.kind = 'group' AND NOT """
    + _OTHER_ABOVE
    + """
    UNION SELECT place.id FROM alone JOIN groups AS place ON place.parent_id = alone.id WHERE NOT """
    + _OTHER_AT
    + """),
found AS (
    SELECT place.path, place.organization_id FROM alone JOIN modules AS place ON place.group_id = alone.id
    WHERE (place.runner_id IS NULL OR place.runner_id = :id) AND NOT """
    + _OTHER_AT
    + """
    UNION ALL SELECT place.path, place.organization_id FROM assignments AS own JOIN modules AS place ON place.id = own.place_id
    WHERE own.runner_id = :id AND own.kind = 'module' AND (place.runner_id IS NULL OR place.runner_id = :id)
        AND place.group_id NOT IN (SELECT id FROM alone) AND NOT """
    + _OTHER_AT
    + " AND NOT "
    + _OTHER_ABOVE
    + """)
SELECT found.path, found.organization_id FROM found
WHERE NOT EXISTS (SELECT 1 FROM runners AS serving WHERE serving.organization_id IS NULL AND """
    + _IS_SERVING
    + """)
LIMIT :count"""
)
"""The modules of the runner's assignments that no other enabled runner serves. A shared runner serves every module.

They are not sorted, so that the databases stop reading at the limit."""

_WITHOUT_JOBS: LiteralString = f"""
SELECT id FROM runners WHERE removing_since IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE jobs.runner_id = runners.id AND jobs.status IN {ACTIVE_STATUSES})
ORDER BY removing_since LIMIT :count"""


async def jobs(tx: Tx, runner_id: str, count: int) -> list[Row]:
    """Return the jobs that a runner has now, by number."""
    return await tx.all(_JOBS, id=runner_id, count=count)


async def counts(tx: Tx, runner_id: str) -> Row | None:
    """Count the jobs of a runner and its attempts that deliver late, and say whether an instance is connected."""
    return await tx.one(_COUNTS, id=runner_id, since=tx.now - MAX_CONTACT_AGE_SECONDS)


async def modules_of_this_runner_alone(tx: Tx, runner_id: str, count: int) -> list[Row]:
    """Return the path and the organization of modules that no other enabled runner serves, up to this many, by path."""
    rows = await tx.all(_ALONE, id=runner_id, count=count)
    return sorted(rows, key=lambda row: str(row["path"]))


async def count_waiting_plans(tx: Tx, runner_id: str) -> int:
    """Count the jobs that wait for an approval, or to continue, with a plan that this runner made."""
    return await tx.value(
        """SELECT count(*) AS plans FROM plans
        JOIN attempts ON attempts.job_id = plans.made_job_id AND attempts.number = plans.made_attempt
        JOIN runners ON runners.id = attempts.runner_id
        JOIN jobs ON jobs.id = plans.job_id AND jobs.plan_attempt = plans.attempt
            AND jobs.status IN ('AWAITING_APPROVAL', 'QUEUED')
        WHERE plans.is_kept AND attempts.runner_id || '' = :id""",
        id=runner_id,
    )


async def removing(tx: Tx, count: int) -> tuple[list[str], bool]:
    """Return runners that are being removed and have no jobs any more, and whether any runner is being removed."""
    rows = await tx.all(_WITHOUT_JOBS, count=count)
    row = await tx.one("SELECT id FROM runners WHERE removing_since IS NOT NULL LIMIT 1")
    return [row["id"] for row in rows], row is not None
