"""Removes saved plans that no attempt can need any more.

These are the plans of jobs that have ended, except those of PLAN jobs that can still be applied, and those that a job has left for
another plan: it never returns to one of them.
"""

import asyncio

from terracrew import backoff
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.retention import store
from terracrew.server.retention.policy import DAY_SECONDS

PASS_SECONDS = 600.0
BATCH_ROWS = 1_000


async def run(db: Database, days: float) -> None:
    """Remove unused plans every few minutes. Every server does this, and skips plans that another one has removed."""
    while True:
        await asyncio.sleep(backoff.jittered(PASS_SECONDS))
        await remove_unused(db, days)


async def remove_unused(db: Database, days: float = 0.0) -> int:
    """Remove unused plans that were made at least this many days ago, and return how many.

    Their objects are deleted after the same delay as all others, so that a backup of the database finds them.
    """

    async def work(tx: Tx) -> int:
        rows = await plan_store.unused(tx, tx.now - days * DAY_SECONDS, BATCH_ROWS)
        names = [plan_store.object_of(row["made_job_id"], row["made_attempt"], row["sha256"]) for row in rows]
        await store.delete_later(tx, names)
        await plan_store.forget_objects(tx, [(row["job_id"], row["attempt"]) for row in rows])
        return len(rows)

    return await db.write(work)


async def unused(tx: Tx, days: float) -> tuple[int, int]:
    """Return how many plans `remove_unused` would remove, and their bytes."""
    row = await plan_store.count_unused(tx, tx.now - days * DAY_SECONDS)
    return (0, 0) if row is None else (row["count"], int(row["bytes"]))
