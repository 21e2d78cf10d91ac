"""Reads the service accounts that may serve the runners of a group: those of the group and of the groups above it."""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx

_ABOVE: LiteralString = """
SELECT service_accounts.id, service_accounts.name, groups.path AS group_path
FROM service_accounts JOIN groups ON groups.id = service_accounts.group_id
WHERE service_accounts.organization_id = :organization_id AND (groups.path = '' OR groups.path = CAST(:path AS text)
    OR substr(CAST(:path AS text), 1, length(groups.path) + 1) = groups.path || '/')
ORDER BY groups.depth DESC, service_accounts.name LIMIT :count"""


async def above(tx: Tx, organization_id: str, path: str, count: int) -> list[Row]:
    """Return the service accounts of a group and of the groups above it, the nearest first."""
    return await tx.all(_ABOVE, organization_id=organization_id, path=path, count=count)
