"""Old versions of states: never the current one, never one in quarantine, and never one of the newest of a module."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.retention import objects
from terracrew.server.retention.policy import DAY_SECONDS, Item, RetentionPolicy, newest_id
from terracrew.server.state import store


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    """States of jobs that have ended. Discarded ones were never current, so they do not count among the newest.

    What is known of an attempt in doubt includes its states, so those stay.
    """
    if policy.states_days is None:
        return []
    before = tx.now - policy.states_days * DAY_SECONDS
    rows = await tx.all(
        """SELECT states.id, states.size AS bytes, states.object FROM states
        WHERE states.id > :after AND states.id < :newest AND states.created_at <= :before
            AND states.status IN ('superseded', 'discarded')
            AND states.id < coalesce((SELECT kept.id FROM states AS kept
                WHERE kept.module_id = states.module_id AND kept.version IS NOT NULL
                ORDER BY kept.id DESC LIMIT 1 OFFSET :others), '')
            AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = states.job_id AND jobs.finished_at IS NULL)
            AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.job_id = states.job_id
                AND attempts.number = states.attempt AND attempts.is_in_doubt)
        ORDER BY states.id LIMIT :limit""",
        after=after.id if after else "",
        newest=newest_id("sta", before),
        before=before,
        others=max(1, policy.states_count) - 1,
        limit=limit,
    )
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:  # noqa: ARG001 - all rules have it
    rows = await store.delete_old(tx, [item.id for item in items])
    removed = rows_to(Item, rows)
    await objects.delete_later(tx, [item.object for item in removed if item.object])
    return removed
