"""Removes old states, but never the current one, one in quarantine, or one of the newest of a module."""

from terracrew.api.operations import RetentionPolicy
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.retention import objects
from terracrew.server.retention.policy import DAY_SECONDS, Item, newest_id
from terracrew.server.state import reads, store


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    """Return old states of jobs that have ended."""
    if policy.states_days is None:
        return []
    before = tx.now - policy.states_days * DAY_SECONDS
    start, count = after.id if after else "", max(1, policy.states_count)
    rows = await reads.removable(tx, start, newest_id("sta", before), before, count, limit)
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:  # noqa: ARG001 - all rules have it
    rows = await store.delete_old(tx, [item.id for item in items])
    removed = rows_to(Item, rows)
    await objects.delete_later(tx, [item.object for item in removed if item.object])
    return removed
