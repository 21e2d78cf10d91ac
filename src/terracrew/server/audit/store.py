"""Rows of the audit log: entries are inserted and read, never changed, and deleted by retention only."""

from collections.abc import Sequence

from terracrew.api.audit import Entry
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.table import Table, values

ENTRIES = Table("audit", Entry)
_INSERT = ENTRIES.insert_batch(*ENTRIES.fields, "stack")
_INSERT_TYPES = ENTRIES.types_of(*ENTRIES.fields, stack="text")


async def insert(tx: Tx, entries: Sequence[Entry]) -> None:
    """Insert entries."""
    rows = [(*values(entry), (entry.path or "").partition("/")[0] or None) for entry in entries]
    await tx.each(_INSERT, _INSERT_TYPES, rows)


async def is_module(tx: Tx, organization_id: str, path: str) -> bool:
    """Return whether there is a module at this path."""
    row = await tx.one(
        "SELECT id FROM modules WHERE organization_id = :organization_id AND path = :path",
        organization_id=organization_id,
        path=path,
    )
    return row is not None


async def has(tx: Tx, action: str, target_id: str) -> bool:
    """Return whether this action on this target was recorded before."""
    row = await tx.one(
        "SELECT 1 AS yes FROM audit WHERE target_id = :target AND action = :action LIMIT 1",
        target=target_id,
        action=action,
    )
    return row is not None


async def delete_batch(tx: Tx, entry_ids: Sequence[str]) -> None:
    """Delete entries that retention no longer keeps."""
    rows = [(each,) for each in entry_ids]
    await tx.each("DELETE FROM audit WHERE id IN (SELECT id FROM batch)", {"id": "text"}, rows)


async def paths_of(tx: Tx, target_ids: Sequence[str]) -> dict[str, str]:
    """Return the paths of the modules among these ids, and of the modules whose jobs are among them."""
    rows = await tx.each_id(
        """SELECT batch.id, modules.path FROM batch JOIN jobs ON jobs.id = batch.id JOIN modules ON modules.id = jobs.module_id
        UNION ALL SELECT batch.id, modules.path FROM batch JOIN modules ON modules.id = batch.id""",
        sorted(set(target_ids)),
    )
    return {row["id"]: row["path"] for row in rows}


async def older(tx: Tx, after: str, newest: str, before: float, limit: int) -> list[Row]:
    """Return entries after the id `after` made before this time, with their sizes. `newest` sorts after the ids of all of them."""
    return await tx.all(
        """SELECT id, length(details) + length(action) + length(target_id) + length(actor_name) AS bytes FROM audit
        WHERE id > :after AND id < :newest AND created_at <= :before ORDER BY id LIMIT :limit""",
        after=after,
        newest=newest,
        before=before,
        limit=limit,
    )
