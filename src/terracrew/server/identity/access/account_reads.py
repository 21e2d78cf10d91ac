"""Reads service accounts with the groups that they belong to."""

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


async def groups_of_holders(tx: Tx, module_id: str) -> list[Row]:
    """Return the service accounts that have a role at a module itself, each with the path of its own group."""
    return await tx.all(
        """SELECT service_accounts.name, groups.path AS group_path FROM role_bindings
        JOIN service_accounts ON service_accounts.id = role_bindings.principal_id
        JOIN groups ON groups.id = service_accounts.group_id
        WHERE role_bindings.module_id = :module_id ORDER BY service_accounts.name""",
        module_id=module_id,
    )
