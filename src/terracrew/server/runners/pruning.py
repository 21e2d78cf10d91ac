"""Removes the rows of instances that disconnected long ago, and the names of removed runners that no attempt refers to."""

from terracrew.server.connections import store as instance_store
from terracrew.server.db.seam import Tx
from terracrew.server.runners import store


async def prune_instances(tx: Tx, before: float, count: int) -> int:
    """Remove instances that disconnected before this time. Their names are kept for the attempts that they ran."""
    rows = await instance_store.delete_gone(tx, before, count)
    await store.keep_names(tx, [(row["id"], row["name"]) for row in rows])
    return len(rows)


async def prune_names(tx: Tx, before: float, count: int) -> int:
    """Forget removed runners and instances that no attempt refers to."""
    return await store.delete_names(tx, before, count)
