"""Old lines of the audit log."""

from terracrew.server.audit import store
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.retention.policy import DAY_SECONDS, Item, RetentionPolicy, newest_id


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    if policy.audit_days is None:
        return []
    before = tx.now - policy.audit_days * DAY_SECONDS
    rows = await tx.all(
        """SELECT id, length(details) + length(action) + length(target_id) + length(actor_name) AS bytes FROM audit
        WHERE id > :after AND id < :newest AND created_at <= :before ORDER BY id LIMIT :limit""",
        after=after.id if after else "",
        newest=newest_id("aud", before),
        before=before,
        limit=limit,
    )
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:  # noqa: ARG001 - all rules have it
    await store.delete_batch(tx, [item.id for item in items])
    return items
