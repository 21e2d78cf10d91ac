"""Logs of ended jobs. A log that is removed says so in its place (`logs/moved.Removal`)."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.topics import log_of
from terracrew.server.logs import store
from terracrew.server.retention import objects
from terracrew.server.retention.policy import DAY_SECONDS, Item, RetentionPolicy, newest_id


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    """Logs that are whole in the object store. The log of an attempt in doubt stays."""
    if policy.logs_days is None:
        return []
    before = tx.now - policy.logs_days * DAY_SECONDS
    rows = await tx.all(
        """SELECT log_objects.job_id AS id, log_objects.attempt AS number, CAST(sum(log_objects.stored_bytes) AS bigint) AS bytes
        FROM log_objects JOIN attempts ON attempts.job_id = log_objects.job_id AND attempts.number = log_objects.attempt
        JOIN jobs ON jobs.id = log_objects.job_id
        WHERE (log_objects.job_id, log_objects.attempt) > (:after, :number) AND log_objects.job_id < :newest
            AND attempts.ended_at <= :before AND jobs.finished_at <= :before
            AND NOT attempts.has_log_chunks AND NOT attempts.is_in_doubt
        GROUP BY log_objects.job_id, log_objects.attempt ORDER BY log_objects.job_id, log_objects.attempt LIMIT :limit""",
        after=after.id if after else "",
        number=after.number if after else 0,
        newest=newest_id("job", before),
        before=before,
        limit=limit,
    )
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:
    removed: list[Item] = []
    for item in items:
        if not await store.set_removed(tx, item.id, item.number, policy.logs_days):
            continue  # something was delivered meanwhile, or the module was deleted
        await objects.delete_later(tx, await store.delete_objects(tx, item.id, item.number))
        tx.wake(log_of(item.id))
        removed.append(item)
    return removed
