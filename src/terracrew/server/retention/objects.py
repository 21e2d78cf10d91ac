"""Objects whose rows are deleted: their names wait in a table, and the objects are deleted after a delay."""

from terracrew.server.db.seam import Database, Tx
from terracrew.server.objects import Objects
from terracrew.server.retention import store

_PAGE_ROWS = 100


async def delete_later(tx: Tx, names: list[str]) -> None:
    """Record the names of these objects, in the same transaction that deletes the rows that name them."""
    await store.insert_deletions(tx, names)


async def delete_due(db: Database, objects: Objects, delay_seconds: float) -> int:
    """Delete the objects that have waited long enough, and return how many."""
    count = 0
    while True:
        names = await db.read(lambda tx: store.due_deletions(tx, tx.now - delay_seconds, _PAGE_ROWS))
        for name in names:
            await objects.delete(name)
        if names:
            await db.write(lambda tx, names=names: store.remove_deletions(tx, names))
        count += len(names)
        if len(names) < _PAGE_ROWS:
            return count
