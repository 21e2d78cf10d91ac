"""Removes logs of ended jobs with the diffs of their plans. A line replaces a log that was removed (`logs/moved.Removal`)."""

from terracrew.api.operations import RetentionPolicy
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.topics import log_of
from terracrew.server.jobs.plans import diff_store
from terracrew.server.logs import object_reads, store
from terracrew.server.retention import objects
from terracrew.server.retention.policy import DAY_SECONDS, Item, newest_id


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    """Return logs that are completely in the object store. The log of an attempt in doubt is kept."""
    if policy.logs_days is None:
        return []
    before = tx.now - policy.logs_days * DAY_SECONDS
    start = (after.id, after.number) if after else ("", 0)
    rows = await object_reads.removable(tx, start, newest_id("job", before), before, limit)
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:
    removed: list[Item] = []
    for item in items:
        if not await store.set_removed(tx, item.id, item.number, policy.logs_days):
            continue  # something was delivered meanwhile, or the module was deleted
        await objects.delete_later(tx, await store.delete_objects(tx, item.id, item.number))
        await objects.delete_later(tx, await diff_store.delete_of_job(tx, item.id))
        tx.wake(log_of(item.id))
        removed.append(item)
    return removed
