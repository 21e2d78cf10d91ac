"""Reads the jobs that a runner has now, and the queued jobs that it may take."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, IS_OPEN_JOB, child_of
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.runners import reads as runners
from terracrew.server.tree.modules import reads as module_reads

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
_PLACES: LiteralString = f"""places (id) AS (
    SELECT place_id FROM assignments WHERE runner_id = :runner_id
    UNION SELECT groups.id FROM places JOIN groups ON {child_of("places")})"""
"""Defines `places`: the modules and groups that a runner is assigned to, and all groups below them."""
_OWN_MODULES: LiteralString = """own_modules (id) AS (
    SELECT modules.id FROM places JOIN modules ON modules.group_id = places.id
    UNION ALL SELECT modules.id FROM places JOIN modules ON modules.id = places.id)"""
"""Defines `own_modules`: the modules of these places."""
MAX_OWN_MODULES = 1_000
"""The jobs of a runner with more modules than this are looked for in the order of the queue, where they come soon."""
_IN_QUEUE: LiteralString = " jobs.status = 'QUEUED'"
_OF_OWN_MODULES: LiteralString = f""" {IS_OPEN_JOB} AND jobs.status || '' = 'QUEUED'
    AND jobs.module_id IN (SELECT id FROM own_modules)"""
"""The expression `status || ''` keeps the databases from reading the whole queue instead of the jobs of few modules."""
_WAITING: LiteralString = f"""
    AND NOT EXISTS (SELECT 1 FROM jobs AS busy WHERE busy.module_id = jobs.module_id AND busy.status IN {ACTIVE_STATUSES})
    AND modules.lock_id IS NULL AND (modules.runner_id IS NULL OR modules.runner_id = :runner_id)
    AND (modules.id IN (SELECT id FROM places) OR modules.group_id IN (SELECT id FROM places)
        OR EXISTS (SELECT 1 FROM runners WHERE runners.id = :runner_id AND runners.organization_id IS NULL))
    ORDER BY jobs.priority DESC, jobs.queued_at, jobs.id LIMIT :count"""
_OF_ORGANIZATION: LiteralString = """ SELECT jobs.id FROM jobs
    JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id || ''
    WHERE jobs.organization_id || '' = :organization_id AND"""
"""The expression `organization_id || ''` keeps SQLite from reading all jobs of the organization instead of the few queued ones."""
_OF_READER: LiteralString = """ SELECT jobs.id FROM jobs JOIN seen_modules ON seen_modules.id = jobs.module_id
    JOIN modules ON modules.id = jobs.module_id WHERE"""


async def current(tx: Tx, runner_ids: Sequence[str], count: int) -> list[Row]:
    """Return the newest `count` jobs that each of these runners has now, with the paths of their modules."""
    return await tx.each(_CURRENT, {"id": "text", "most": "bigint"}, [(each, count) for each in runner_ids])


async def active(tx: Tx, organization_id: str, seen: Visible, runner_id: str, count: int) -> list[str]:
    """Return the newest jobs that a runner has now and that the reader may see."""
    return await _ids(tx, organization_id, seen, runner_id, count, _ACTIVE)


async def waiting(tx: Tx, organization_id: str, seen: Visible, runner_id: str, count: int) -> list[str]:
    """Return the first queued jobs of free modules that a runner may take and that the reader may see, in the order of the queue."""
    is_small = (
        not await runners.is_shared(tx, runner_id)
        and await module_reads.count_of_runner(tx, runner_id, MAX_OWN_MODULES + 1) <= MAX_OWN_MODULES
    )
    wanted: LiteralString = (_OF_OWN_MODULES if is_small else _IN_QUEUE) + _WAITING
    return await _ids(tx, organization_id, seen, runner_id, count, wanted)


async def _ids(
    tx: Tx, organization_id: str, seen: Visible, runner_id: str, count: int, wanted: LiteralString
) -> list[str]:
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        sql: LiteralString = "WITH RECURSIVE " + _PLACES + ", " + _OWN_MODULES + _OF_ORGANIZATION + wanted
        rows = await tx.all(sql, organization_id=organization_id, runner_id=runner_id, count=count)
    else:
        sql = visibility.SEEN_MODULES + ", " + _PLACES + ", " + _OWN_MODULES + _OF_READER + wanted
        rows = await tx.all(sql, runner_id=runner_id, count=count, **visibility.params(seen))
    return [row["id"] for row in rows]
