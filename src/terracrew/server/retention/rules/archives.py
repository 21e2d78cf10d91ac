"""Archives that no module uses: those that nothing refers to, and those whose jobs ended long ago."""

from terracrew.api.operations import RetentionPolicy
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.retention import objects
from terracrew.server.retention.policy import DAY_SECONDS, Item
from terracrew.server.tree.modules import reads, store

GRACE_SECONDS = 7 * DAY_SECONDS
"""New archives are kept for this time, because an archive is uploaded before the module or the job that uses it is created."""


def _before(tx: Tx, policy: RetentionPolicy) -> float:
    """Return the time before which a job must have ended so that its archive is no longer needed."""
    return -1.0 if policy.archives_days is None else tx.now - policy.archives_days * DAY_SECONDS


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    start = after.id if after else ""
    rows = await reads.unused(tx, start, tx.now - GRACE_SECONDS, _before(tx, policy), limit)
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:
    """Remove unused archives. Each row is locked and checked again, because creating a module or a job with it locks the row, too."""
    removed: list[Item] = []
    for item in items:
        if await reads.hold_unused(tx, item.id, tx.now - GRACE_SECONDS, _before(tx, policy)):
            await store.delete_archive(tx, item.id)
            removed.append(item)
    await objects.delete_later(tx, [f"archives/{item.id}" for item in removed])
    return removed
