"""Archives that no module uses: those that nothing refers to, and those whose jobs ended long ago."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.modules import archive_reads, store
from terracrew.server.retention import objects
from terracrew.server.retention.policy import DAY_SECONDS, Item, RetentionPolicy

GRACE_SECONDS = 7 * DAY_SECONDS
"""An archive is uploaded before the module or the job that uses it is made."""


def _before(tx: Tx, policy: RetentionPolicy) -> float:
    """Jobs that ended before this need their archive no more."""
    return -1.0 if policy.archives_days is None else tx.now - policy.archives_days * DAY_SECONDS


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    start = after.id if after else ""
    rows = await archive_reads.unused(tx, start, tx.now - GRACE_SECONDS, _before(tx, policy), limit)
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:
    """Lock the row first and check again, because creating a module or a job with an archive locks its row, too."""
    removed: list[Item] = []
    for item in items:
        if await archive_reads.hold_unused(tx, item.id, tx.now - GRACE_SECONDS, _before(tx, policy)):
            await store.delete_archive(tx, item.id)
            removed.append(item)
    await objects.delete_later(tx, [f"archives/{item.id}" for item in removed])
    return removed
