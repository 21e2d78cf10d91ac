"""Reads which published modules have tags to look at, and which repositories they follow."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.discovery import reads as discovery
from terracrew.server.forges.reads import UsedRepository


async def due(tx: Tx, count: int) -> list[str]:
    """Return the published modules whose tags are to be looked at now, and that no server works on."""
    rows = await tx.all(
        "SELECT id FROM published_modules WHERE due_at <= :now AND (lease_until IS NULL OR lease_until <= :now)"
        " ORDER BY due_at, id LIMIT :count",
        now=tx.now,
        count=count,
    )
    return [row["id"] for row in rows]


async def next_due(tx: Tx) -> float | None:
    return await tx.value(
        "SELECT min(CASE WHEN lease_until IS NULL THEN due_at ELSE lease_until END) AS next FROM published_modules"
        " WHERE due_at IS NOT NULL"
    )


async def watched_sources(tx: Tx) -> list[UsedRepository]:
    """Return the repositories that published modules and discovery rules of all organizations read, so that they are watched."""
    rows = await tx.all(
        """SELECT published_modules.organization_id, groups.path AS "group", published_modules.url FROM published_modules
        JOIN groups ON groups.id = published_modules.group_id WHERE published_modules.url <> '' ORDER BY published_modules.id"""
    )
    return [*rows_to(UsedRepository, rows), *await discovery.sources(tx)]
