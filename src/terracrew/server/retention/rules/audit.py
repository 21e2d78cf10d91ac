"""Removes old entries of the audit log."""

from terracrew.api.operations import RetentionPolicy
from terracrew.server.audit import store
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.retention.policy import DAY_SECONDS, Item, newest_id


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    if policy.audit_days is None:
        return []
    before = tx.now - policy.audit_days * DAY_SECONDS
    rows = await store.older(tx, after.id if after else "", newest_id("aud", before), before, limit)
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:  # noqa: ARG001 - all rules have it
    await store.delete_batch(tx, [item.id for item in items])
    return items
