"""Removes the rows of instances that are gone for good, and the names of removed runners that no attempt has any more."""

from typing import LiteralString

from terracrew.server.db.seam import Tx

# An instance that comes back finds its row again. These rows are needed: a process of that place still has an attempt, an
# attempt in doubt may yet be heard by it, or a plan that it made waits to be applied where it was made.
_NEEDED: LiteralString = """
SELECT instance_id FROM attempts WHERE ended_at IS NULL
UNION SELECT instance_id FROM attempts WHERE is_in_doubt
UNION SELECT attempts.instance_id FROM plans
    JOIN attempts ON attempts.job_id = plans.job_id AND attempts.number = plans.attempt WHERE plans.is_kept"""
_INSTANCES: LiteralString = f"""
DELETE FROM instances WHERE NOT is_connected AND id IN (
    SELECT id FROM instances WHERE NOT is_connected AND disconnected_at < :before AND id NOT IN ({_NEEDED})
    ORDER BY disconnected_at LIMIT :count)
RETURNING id, name"""
_KEEP_NAME: LiteralString = """
INSERT INTO removed (id, name, removed_at) SELECT batch.id, batch.name, batch.now FROM batch
WHERE EXISTS (SELECT 1 FROM attempts WHERE attempts.instance_id = batch.id)"""
_NAMES: LiteralString = """
DELETE FROM removed WHERE id IN (
    SELECT id FROM removed WHERE removed_at < :before
        AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.instance_id = removed.id)
        AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.runner_id = removed.id)
    ORDER BY removed_at LIMIT :count)"""


async def prune_instances(tx: Tx, before: float, count: int) -> int:
    """Remove instances that disconnected before this time; the attempts that they ran keep their names."""
    rows = await tx.all(_INSTANCES, before=before, count=count)
    columns: dict[str, LiteralString] = {"id": "text", "name": "text", "now": "double precision"}
    await tx.each(_KEEP_NAME, columns, sorted((row["id"], row["name"], tx.now) for row in rows))
    return len(rows)


async def prune_names(tx: Tx, before: float, count: int) -> int:
    """Forget removed runners and instances that no attempt refers to."""
    return await tx.run(_NAMES, before=before, count=count)
