"""Reads what needs a person in an organization: a few rows each, found by partial indexes, however many jobs there are."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, IS_OPEN_JOB
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

_IS_QUEUED: LiteralString = f"{IS_OPEN_JOB} AND jobs.status = 'QUEUED'"
_QUEUED_OF_ORGANIZATION: LiteralString = f"""SELECT jobs.id FROM jobs
    WHERE jobs.organization_id = :organization_id AND {_IS_QUEUED} AND EXISTS (SELECT 1 FROM modules
        WHERE modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id)
    ORDER BY jobs.id LIMIT :count"""
# CROSS JOIN makes SQLite begin with the modules. It would read the queued jobs of every organization, in their order, instead.
_QUEUED_OF_READER: LiteralString = f"""{visibility.SEEN_MODULES} SELECT jobs.id FROM seen_modules CROSS JOIN jobs
    WHERE jobs.module_id = seen_modules.id AND {_IS_QUEUED} ORDER BY jobs.id LIMIT :count"""


async def oldest_queued(tx: Tx, organization_id: str, seen: Visible, count: int) -> list[str]:
    """Return the jobs that wait for a runner for the longest time, of the modules that are seen."""
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        rows = await tx.all(_QUEUED_OF_ORGANIZATION, organization_id=organization_id, count=count)
    else:
        rows = await tx.all(_QUEUED_OF_READER, count=count, **visibility.params(seen))
    return [row["id"] for row in rows]


async def out_of_contact(tx: Tx, organization_id: str, since: float, count: int) -> list[Row]:
    """Return the active jobs whose attempt is lost or was not heard since this time, with the paths of their modules, the one that was
    claimed first first. Ordered by their ids, SQLite would read every job of the organization."""
    return await tx.all(
        f"""SELECT jobs.id, modules.path FROM jobs
        JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
        JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id
        WHERE jobs.organization_id = :organization_id AND jobs.status IN {ACTIVE_STATUSES}
            AND (attempts.lost_at IS NOT NULL OR coalesce(attempts.heard_at, attempts.claimed_at) < :since)
        ORDER BY attempts.claimed_at LIMIT :count""",
        organization_id=organization_id,
        since=since,
        count=count,
    )


async def modules_in_doubt(tx: Tx, organization_id: str, count: int) -> list[Row]:
    """Return modules in doubt, with the number of the last job that was cut short and the time of that.

    Few attempts are in doubt. `organization_id || ''` keeps the databases from reading every module of the organization.
    """
    return await tx.all(
        """SELECT modules.id, modules.path, max(jobs.number) AS number, max(attempts.ended_at) AS since
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id JOIN modules ON modules.id = jobs.module_id
        WHERE attempts.is_in_doubt AND modules.organization_id || '' = :organization_id
        GROUP BY modules.id, modules.path ORDER BY modules.path LIMIT :count""",
        organization_id=organization_id,
        count=count,
    )


async def modules_with_quarantine(tx: Tx, organization_id: str, count: int) -> list[Row]:
    """Return modules with states in quarantine, how many, and since when. There are few, as of modules in doubt."""
    return await tx.all(
        """SELECT modules.id, modules.path, count(*) AS states, min(states.created_at) AS since
        FROM states JOIN modules ON modules.id = states.module_id
        WHERE states.status = 'quarantined' AND modules.organization_id || '' = :organization_id
        GROUP BY modules.id, modules.path ORDER BY modules.path LIMIT :count""",
        organization_id=organization_id,
        count=count,
    )


async def plans(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return the summaries of the plans of these jobs."""
    return await tx.each_id("SELECT jobs.id, jobs.plan FROM batch JOIN jobs ON jobs.id = batch.id", job_ids)
