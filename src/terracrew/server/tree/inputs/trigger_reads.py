"""Reads which of the modules that have to be applied because of a changed output can be applied now."""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import IS_OPEN_JOB

_NEEDED: LiteralString = """WITH RECURSIVE needed (start_id, id) AS (
    SELECT triggered_modules.module_id, triggered_modules.module_id FROM triggered_modules
        WHERE CAST(:module_id AS text) IS NULL OR triggered_modules.module_id = CAST(:module_id AS text)
    UNION SELECT needed.start_id, inputs.source_module_id FROM needed JOIN inputs ON inputs.place_id = needed.id
        AND inputs.is_current AND inputs.source_module_id IS NOT NULL)"""
"""Defines `needed`: each of these modules with itself and everything that it needs, directly or not."""
_HAS_OPEN_CHANGE: LiteralString = f"""EXISTS (
    SELECT 1 FROM jobs WHERE jobs.module_id = needed.id AND jobs.type <> 'PLAN' AND {IS_OPEN_JOB})"""
_IS_AHEAD_IN_RUN: LiteralString = """EXISTS (SELECT 1 FROM group_run_modules
    WHERE group_run_modules.module_id = needed.id AND group_run_modules.status IN ('WAITING', 'RUNNING'))"""
_IS_TRIGGERED: LiteralString = """EXISTS (
    SELECT 1 FROM triggered_modules AS above WHERE above.module_id = needed.id)"""
_HAS_FAILED: LiteralString = """EXISTS (SELECT 1 FROM jobs AS newest WHERE newest.status <> 'SUCCEEDED' AND newest.id = (
    SELECT max(jobs.id) FROM jobs WHERE jobs.module_id = needed.id AND jobs.type <> 'PLAN'))"""
_READY: LiteralString = f"""{_NEEDED}
SELECT triggered_modules.module_id FROM triggered_modules
WHERE triggered_modules.module_id IN (SELECT start_id FROM needed) AND NOT EXISTS (
    SELECT 1 FROM needed WHERE needed.start_id = triggered_modules.module_id AND (
        {_HAS_OPEN_CHANGE} OR {_IS_AHEAD_IN_RUN}
        OR needed.id <> needed.start_id AND ({_IS_TRIGGERED} OR {_HAS_FAILED})))
ORDER BY triggered_modules.changed_at, triggered_modules.module_id LIMIT :count"""
"""One statement, so that another server which turns a row into a job is seen either before or after that, never in between."""

_HOLDING: LiteralString = f"""{_NEEDED}
SELECT modules.id, modules.path, modules.organization_id, modules.id = needed.start_id AS is_itself,
    (SELECT min(inputs.source_output) FROM inputs WHERE inputs.place_id = needed.start_id AND inputs.is_current
        AND inputs.source_module_id = needed.id) AS output,
    {_HAS_OPEN_CHANGE} AS has_open_change, {_IS_AHEAD_IN_RUN} AS is_in_run, {_IS_TRIGGERED} AS is_triggered
FROM needed JOIN modules ON modules.id = needed.id
WHERE {_HAS_OPEN_CHANGE} OR {_IS_AHEAD_IN_RUN} OR needed.id <> needed.start_id AND ({_IS_TRIGGERED} OR {_HAS_FAILED})
ORDER BY modules.path LIMIT :count"""
"""What a module waits for, by the conditions of `_READY`."""
_PROBLEM: LiteralString = """
SELECT trigger_problems.message, trigger_problems.cause_job_id, trigger_problems.created_at FROM trigger_problems
WHERE trigger_problems.module_id = :module_id AND NOT EXISTS (SELECT 1 FROM jobs
    WHERE jobs.module_id = :module_id AND jobs.type <> 'PLAN' AND jobs.created_at > trigger_problems.created_at)"""


async def ready(tx: Tx, count: int) -> list[str]:
    """Return the modules whose turn it is: everything that they need has been applied, and nothing more is about to change it."""
    return [row["module_id"] for row in await tx.all(_READY, module_id=None, count=count)]


async def is_ready(tx: Tx, module_id: str) -> bool:
    """Return whether it is the turn of this module."""
    return bool(await tx.all(_READY, module_id=module_id, count=1))


async def has_any(tx: Tx) -> bool:
    """Return whether any module waits for its turn."""
    return await tx.one("SELECT module_id FROM triggered_modules LIMIT 1") is not None


async def changed_at(tx: Tx, module_id: str) -> float | None:
    """Return since when a module has to be applied because of a changed output; None if it does not have to."""
    row = await tx.one("SELECT changed_at FROM triggered_modules WHERE module_id = :module_id", module_id=module_id)
    return None if row is None else row["changed_at"]


async def holding(tx: Tx, module_id: str, count: int) -> list[Row]:
    """Return the modules that a module which has to be applied waits for, with the output of each that it uses."""
    return await tx.all(_HOLDING, module_id=module_id, count=count)


async def problem(tx: Tx, module_id: str) -> Row | None:
    """Return why the last changed output could not queue a job of a module, unless a change was queued since."""
    return await tx.one(_PROBLEM, module_id=module_id)
