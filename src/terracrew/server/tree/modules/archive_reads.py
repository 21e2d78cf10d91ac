"""Finds archives that are not used, and the modules that use one."""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx

_UNUSED: LiteralString = """archives.created_at <= :grace
    AND NOT EXISTS (SELECT 1 FROM modules WHERE substr(modules.source, 33, 36) = archives.id)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE substr(jobs.source, 33, 36) = archives.id
        AND (jobs.finished_at IS NULL OR jobs.finished_at > :before))"""
"""Archives made before `:grace` that no module uses, and that no job uses unless it ended before `:before`."""


async def unused(tx: Tx, after: str, grace: float, before: float, limit: int) -> list[Row]:
    """Return the unused archives after the archive `after`, with their sizes."""
    return await tx.all(
        "SELECT id, size AS bytes FROM archives WHERE id > :after AND " + _UNUSED + " ORDER BY id LIMIT :limit",
        after=after,
        grace=grace,
        before=before,
        limit=limit,
    )


async def used_at(tx: Tx, archive_id: str) -> list[str]:
    """Return the paths of the modules that use an archive, or had a job that did."""
    rows = await tx.all(
        """SELECT modules.path FROM modules WHERE substr(modules.source, 33, 36) = :id
        UNION SELECT modules.path FROM jobs JOIN modules ON modules.id = jobs.module_id
        WHERE substr(jobs.source, 33, 36) = :id""",
        id=archive_id,
    )
    return [row["path"] for row in rows]


async def hold_unused(tx: Tx, archive_id: str, grace: float, before: float) -> bool:
    """Lock the row of an archive until the transaction ends, and return whether the archive is unused."""
    await tx.one("SELECT id FROM archives WHERE id = :id FOR UPDATE", id=archive_id)
    row = await tx.one(
        "SELECT id FROM archives WHERE id = :id AND " + _UNUSED,
        id=archive_id,
        grace=grace,
        before=before,
    )
    return row is not None
