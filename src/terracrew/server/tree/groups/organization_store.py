"""The rows of organizations: how they are found, listed, renamed and deleted."""

from typing import LiteralString

from terracrew.api.groups import Organization
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.tree.groups.store import DELETED_ORGANIZATION

_IS_REAL: LiteralString = "organizations.id <> :deleted"
_PAGE: LiteralString = " AND organizations.id > :after ORDER BY organizations.id LIMIT :limit"
_ALL: LiteralString = f"SELECT * FROM organizations WHERE {_IS_REAL}"
_OF_PRINCIPAL: LiteralString = f"""SELECT * FROM organizations WHERE {_IS_REAL} AND (id = :home_id OR id IN (
    SELECT organization_id FROM role_bindings WHERE principal_id = :principal_id
        AND (expires_at IS NULL OR expires_at > :now)))"""


async def find(tx: Tx, name_or_id: str) -> Organization | None:
    if not name_or_id.isprintable():
        return None
    row = await tx.one(
        f"SELECT * FROM organizations WHERE {_IS_REAL} AND (id = :it OR name = :it)",
        it=name_or_id,
        deleted=DELETED_ORGANIZATION,
    )
    return None if row is None else row_to(Organization, row)


async def first(tx: Tx) -> Organization | None:
    """Return the oldest organization."""
    rows = await tx.all(_ALL + " ORDER BY created_at, id LIMIT 1", deleted=DELETED_ORGANIZATION)
    return row_to(Organization, rows[0]) if rows else None


async def every(tx: Tx, after: str, limit: int) -> list[Organization]:
    return rows_to(Organization, await tx.all(_ALL + _PAGE, deleted=DELETED_ORGANIZATION, after=after, limit=limit))


async def of_principal(tx: Tx, principal_id: str, home_id: str | None, after: str, limit: int) -> list[Organization]:
    """Return the organization that a principal belongs to, and those in which it has a role."""
    given: dict[str, Param] = {"principal_id": principal_id, "home_id": home_id, "now": tx.now}
    rows = await tx.all(_OF_PRINCIPAL + _PAGE, **given, deleted=DELETED_ORGANIZATION, after=after, limit=limit)
    return rows_to(Organization, rows)


async def rename(tx: Tx, organization_id: str, name: str) -> None:
    await tx.run("UPDATE organizations SET name = :name WHERE id = :id", name=name, id=organization_id)


async def contents(tx: Tx, organization_id: str) -> dict[str, int]:
    """Return how many things of each kind an organization has. Its root group does not count."""
    row = await tx.one(
        """SELECT (SELECT count(*) FROM users WHERE organization_id = :id) AS users,
            (SELECT count(*) FROM service_accounts WHERE organization_id = :id) AS service_accounts,
            (SELECT count(*) FROM cloud_identities WHERE organization_id = :id) AS cloud_identities,
            (SELECT count(*) FROM forge_connections WHERE organization_id = :id) AS forge_connections,
            (SELECT count(*) FROM groups WHERE organization_id = :id AND path <> '') AS groups,
            (SELECT count(*) FROM modules WHERE organization_id = :id) AS modules,
            (SELECT count(*) FROM runners WHERE organization_id = :id) AS runners,
            (SELECT count(*) FROM jobs WHERE organization_id = :id) AS jobs,
            (SELECT count(*) FROM archives WHERE organization_id = :id) AS archives
        FROM organizations WHERE id = :id""",
        id=organization_id,
    )
    return dict(row or {})


async def hold(tx: Tx, organization_id: str) -> str | None:
    """Lock an organization and its root group until the transaction ends, and return the id of the group."""
    await tx.one("SELECT id FROM organizations WHERE id = :id FOR UPDATE", id=organization_id)
    return await tx.value(
        "SELECT id FROM groups WHERE organization_id = :id AND path = '' FOR UPDATE", id=organization_id
    )


async def hold_row(tx: Tx, organization_id: str) -> None:
    """Lock the row of an organization alone until the transaction ends. What only refers to it does not wait."""
    await tx.one("SELECT id FROM organizations WHERE id = :id FOR NO KEY UPDATE", id=organization_id)


async def delete(tx: Tx, organization_id: str) -> None:
    await tx.run("DELETE FROM organizations WHERE id = :id", id=organization_id)
