"""Archives that no module uses: those that nothing refers to, and those whose jobs ended long ago."""

from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.modules import store
from terracrew.server.retention import objects
from terracrew.server.retention.policy import DAY_SECONDS, Item, RetentionPolicy

GRACE_SECONDS = 7 * DAY_SECONDS
"""An archive is uploaded before the module or the job that uses it is made."""
_UNUSED: LiteralString = """archives.created_at <= :grace
    AND NOT EXISTS (SELECT 1 FROM modules WHERE substr(modules.source, 33, 36) = archives.id)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE substr(jobs.source, 33, 36) = archives.id
        AND (jobs.finished_at IS NULL OR jobs.finished_at > :before))"""


def _before(tx: Tx, policy: RetentionPolicy) -> float:
    """Jobs that ended before this need their archive no more."""
    return -1.0 if policy.archives_days is None else tx.now - policy.archives_days * DAY_SECONDS


async def find(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    rows = await tx.all(
        "SELECT id, size AS bytes FROM archives WHERE id > :after AND " + _UNUSED + " ORDER BY id LIMIT :limit",
        after=after.id if after else "",
        grace=tx.now - GRACE_SECONDS,
        before=_before(tx, policy),
        limit=limit,
    )
    return rows_to(Item, rows)


async def remove(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:
    """Lock the row first and check again, because creating a module or a job with an archive locks its row, too."""
    removed: list[Item] = []
    for item in items:
        await tx.one("SELECT id FROM archives WHERE id = :id FOR UPDATE", id=item.id)
        if await tx.one(
            "SELECT id FROM archives WHERE id = :id AND " + _UNUSED,
            id=item.id,
            grace=tx.now - GRACE_SECONDS,
            before=_before(tx, policy),
        ):
            await store.delete_archive(tx, item.id)
            removed.append(item)
    await objects.delete_later(tx, [f"archives/{item.id}" for item in removed])
    return removed
