"""Removes the rows of instances that are gone for good, and the names of removed runners that no attempt has any more."""

from typing import LiteralString

from terracrew.server.connections import store as instance_store
from terracrew.server.db.seam import Tx

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
    rows = await instance_store.delete_gone(tx, before, count)
    columns: dict[str, LiteralString] = {"id": "text", "name": "text", "now": "double precision"}
    await tx.each(_KEEP_NAME, columns, sorted((row["id"], row["name"], tx.now) for row in rows))
    return len(rows)


async def prune_names(tx: Tx, before: float, count: int) -> int:
    """Forget removed runners and instances that no attempt refers to."""
    return await tx.run(_NAMES, before=before, count=count)
