"""Reads which published modules have tags to look at, which repositories they follow, and which modules use them."""

from typing import LiteralString

from terracrew.api.registry import PublishedModuleUse
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.discovery import reads as discovery
from terracrew.server.forges.reads import UsedRepository
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.registry.model import PublishedModule

_USES: LiteralString = """ SELECT modules.id AS module_id, modules.path AS module, published_versions.version,
    published_versions.withdrawn_at IS NOT NULL AS is_withdrawn, published_uses.job_id, published_uses.first_at,
    published_uses.fetched_at
FROM published_versions JOIN published_uses ON published_uses.version_id = published_versions.id
JOIN modules ON modules.id = published_uses.module_id"""
_OF_PUBLISHED: LiteralString = """ WHERE published_versions.published_id = :published_id
    AND (CAST(:version AS text) = '' OR published_versions.version = CAST(:version AS text))
ORDER BY published_uses.fetched_at DESC, modules.id, published_versions.id LIMIT :limit OFFSET :begin"""
_SEEN_USES: LiteralString = (
    visibility.SEEN_MODULES + _USES + " JOIN seen_modules ON seen_modules.id = modules.id" + _OF_PUBLISHED
)


async def uses(
    tx: Tx, module: PublishedModule, seen: Visible, version: str, begin: int, limit: int
) -> list[PublishedModuleUse]:
    """Return which modules have fetched which versions; with a version, only who has fetched that one."""
    if seen.is_nothing:
        return []
    given: dict[str, Param] = {"published_id": module.id, "version": version, "begin": begin, "limit": limit}
    if seen.is_everything(module.organization_id):
        rows = await tx.all(_USES + _OF_PUBLISHED, **given)
    else:
        rows = await tx.all(_SEEN_USES, **given, **visibility.params(seen))
    return rows_to(PublishedModuleUse, rows)


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
