"""Reads which of the modules that have to be applied because of a changed output can be applied now."""

from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import IS_OPEN_JOB

_NEEDED: LiteralString = """WITH RECURSIVE needed (start_id, id) AS (
    SELECT triggered_modules.module_id, triggered_modules.module_id FROM triggered_modules
        WHERE CAST(:module_id AS text) IS NULL OR triggered_modules.module_id = CAST(:module_id AS text)
    UNION SELECT needed.start_id, inputs.source_module_id FROM needed JOIN inputs ON inputs.place_id = needed.id
        AND inputs.is_current AND inputs.source_module_id IS NOT NULL)"""
"""Defines `needed`: each of these modules with itself and everything that it needs, directly or not."""
_READY: LiteralString = f"""{_NEEDED}
SELECT triggered_modules.module_id FROM triggered_modules
WHERE triggered_modules.module_id IN (SELECT start_id FROM needed) AND NOT EXISTS (
    SELECT 1 FROM needed WHERE needed.start_id = triggered_modules.module_id AND (
        EXISTS (SELECT 1 FROM jobs WHERE jobs.module_id = needed.id AND jobs.type <> 'PLAN' AND {IS_OPEN_JOB})
        OR EXISTS (SELECT 1 FROM group_run_modules
            WHERE group_run_modules.module_id = needed.id AND group_run_modules.status IN ('WAITING', 'RUNNING'))
        OR needed.id <> needed.start_id AND (
            EXISTS (SELECT 1 FROM triggered_modules AS above WHERE above.module_id = needed.id)
            OR EXISTS (SELECT 1 FROM jobs AS newest WHERE newest.status <> 'SUCCEEDED' AND newest.id = (
                SELECT max(jobs.id) FROM jobs WHERE jobs.module_id = needed.id AND jobs.type <> 'PLAN')))))
ORDER BY triggered_modules.changed_at, triggered_modules.module_id LIMIT :count"""
"""One statement, so that another server which turns a row into a job is seen either before or after that, never in between."""


async def ready(tx: Tx, count: int) -> list[str]:
    """Return the modules whose turn it is: everything that they need has been applied, and nothing more is about to change it."""
    return [row["module_id"] for row in await tx.all(_READY, module_id=None, count=count)]


async def is_ready(tx: Tx, module_id: str) -> bool:
    """Return whether it is the turn of this module."""
    return bool(await tx.all(_READY, module_id=module_id, count=1))


async def has_any(tx: Tx) -> bool:
    """Return whether any module waits for its turn."""
    return await tx.one("SELECT module_id FROM triggered_modules LIMIT 1") is not None
