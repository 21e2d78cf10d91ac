"""Objects whose rows are deleted: their names wait in a table, and the objects are deleted after a delay."""

from terracrew.server.db.seam import Columns, Database, Tx
from terracrew.server.objects import Objects

_PAGE_ROWS = 100
_NAMES: Columns = {"name": "text"}


async def delete_later(tx: Tx, names: list[str]) -> None:
    """Note these objects in the transaction that deletes the rows that name them."""
    rows = [(name, tx.now) for name in sorted(names)]
    await tx.each(
        """INSERT INTO object_deletions (name, requested_at) SELECT name, requested_at FROM batch WHERE true
        ON CONFLICT DO NOTHING""",
        {"name": "text", "requested_at": "double precision"},
        rows,
    )


async def delete_due(db: Database, objects: Objects, delay_seconds: float) -> int:
    """Delete the objects that have waited long enough; how many."""
    count = 0
    while True:
        rows = await db.read(
            lambda tx: tx.all(
                "SELECT name FROM object_deletions WHERE requested_at <= :before ORDER BY requested_at LIMIT :page",
                before=tx.now - delay_seconds,
                page=_PAGE_ROWS,
            )
        )
        names = [row["name"] for row in rows]
        for name in names:
            await objects.delete(name)
        if names:
            await db.write(
                lambda tx, names=names: tx.each(
                    "DELETE FROM object_deletions WHERE name IN (SELECT name FROM batch)",
                    _NAMES,
                    [(name,) for name in sorted(names)],
                )
            )
        count += len(names)
        if len(names) < _PAGE_ROWS:
            return count
