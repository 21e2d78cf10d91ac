"""Reads the jobs that a runner has now, and the queued jobs that it may take."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.runners import eligibility

_CURRENT: LiteralString = f"""
SELECT ranked.runner_id, ranked.id, ranked.number, ranked.organization_id, ranked.path FROM (
    SELECT jobs.runner_id, jobs.id, jobs.number, jobs.organization_id, modules.path, batch.most,
        row_number() OVER (PARTITION BY jobs.runner_id ORDER BY jobs.id DESC) AS place
    FROM batch JOIN jobs ON jobs.runner_id = batch.id AND jobs.status IN {ACTIVE_STATUSES}
    JOIN modules ON modules.id = jobs.module_id) AS ranked
WHERE ranked.place <= ranked.most ORDER BY ranked.id DESC"""
_ACTIVE: LiteralString = (
    f" jobs.runner_id = :runner_id AND jobs.status IN {ACTIVE_STATUSES} ORDER BY jobs.id DESC LIMIT :count"
)
_WAITING: LiteralString = f""" jobs.status = 'QUEUED'
    AND NOT EXISTS (SELECT 1 FROM jobs AS busy WHERE busy.module_id = jobs.module_id AND busy.status IN {ACTIVE_STATUSES})
    AND (modules.runner_id IS NULL OR modules.runner_id = :runner_id)
    AND (EXISTS (SELECT 1 FROM runners WHERE runners.id = :runner_id AND runners.organization_id IS NULL)
        OR EXISTS (SELECT 1 FROM assignments WHERE assignments.runner_id = :runner_id
            AND assignments.organization_id = jobs.organization_id AND {eligibility.COVERS}))
    ORDER BY jobs.priority DESC, jobs.queued_at, jobs.id LIMIT :count"""
_OF_ORGANIZATION: LiteralString = """SELECT jobs.id FROM jobs
    JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id
    WHERE jobs.organization_id = :organization_id AND"""
_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT jobs.id FROM jobs JOIN seen_modules ON seen_modules.id = jobs.module_id
    JOIN modules ON modules.id = jobs.module_id WHERE"""
)


async def current(tx: Tx, runner_ids: Sequence[str], count: int) -> list[Row]:
    """Return the newest `count` jobs that each of these runners has now, with the paths of their modules."""
    return await tx.each(_CURRENT, {"id": "text", "most": "bigint"}, [(each, count) for each in runner_ids])


async def active(tx: Tx, organization_id: str, seen: Visible, runner_id: str, count: int) -> list[str]:
    """Return the newest jobs that a runner has now and that the reader may see."""
    return await _ids(tx, organization_id, seen, runner_id, count, _ACTIVE)


async def waiting(tx: Tx, organization_id: str, seen: Visible, runner_id: str, count: int) -> list[str]:
    """Return the first queued jobs of free modules that a runner may take and that the reader may see, in the order of the queue."""
    return await _ids(tx, organization_id, seen, runner_id, count, _WAITING)


async def _ids(
    tx: Tx, organization_id: str, seen: Visible, runner_id: str, count: int, wanted: LiteralString
) -> list[str]:
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        rows = await tx.all(
            _OF_ORGANIZATION + wanted, organization_id=organization_id, runner_id=runner_id, count=count
        )
    else:
        rows = await tx.all(_OF_READER + wanted, runner_id=runner_id, count=count, **visibility.params(seen))
    return [row["id"] for row in rows]
