"""Rows of role bindings."""

from typing import LiteralString

from terracrew import ids
from terracrew.errors import NotFound
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.db.statements.table import Table
from terracrew.server.groups import reads as groups
from terracrew.server.identity.access.model import RoleBinding
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

ROLES = Table("role_bindings", RoleBinding)
_BIND_ROLE = (
    ROLES.insert("group_id", "module_id")
    + f""" ON CONFLICT (principal_id, organization_id, place_kind, path) DO UPDATE SET role = excluded.role
    RETURNING {ROLES.columns}"""
)


async def bind_role(
    tx: Tx, organization_id: str, kind: str, principal_id: str, role: str, place_kind: str, path: str, created_by: str
) -> RoleBinding:
    """Give a principal a role at a place. It replaces the role that the principal had at exactly this place."""
    group_id = await require_group(tx, organization_id, path) if place_kind == "group" else None
    module_id = await _module_id(tx, organization_id, path) if place_kind == "module" else None
    wanted: dict[str, Param] = {
        "id": ids.new("rol"),
        "organization_id": organization_id,
        "principal_kind": kind,
        "principal_id": principal_id,
        "role": role,
        "place_kind": place_kind,
        "path": path,
        "created_by": created_by,
        "created_at": tx.now,
    }
    row = await tx.one(_BIND_ROLE, **wanted, group_id=group_id, module_id=module_id)
    return row_to(RoleBinding, row or {})


async def role(tx: Tx, binding_id: str) -> RoleBinding:
    row = await tx.one("SELECT * FROM role_bindings WHERE id = :id", id=binding_id)
    if row is None:
        raise no_role(binding_id)
    return row_to(RoleBinding, row)


def no_role(binding_id: str) -> NotFound:
    return NotFound(f"there is no role binding {binding_id}")


_ROLES_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT role_bindings.* FROM role_bindings
    WHERE organization_id = :organization_id AND role_bindings.id > :after
        AND (group_id IN (SELECT id FROM seen_groups) OR module_id IN (SELECT id FROM seen_modules))
    ORDER BY role_bindings.id LIMIT :limit"""
)


async def roles(tx: Tx, seen: Visible, organization_id: str, after: str, limit: int) -> list[RoleBinding]:
    """Return the role bindings at the places that the reader may see."""
    if seen.is_nothing:
        return []
    if not seen.is_everything(organization_id):
        given = visibility.params(seen)
        rows = await tx.all(_ROLES_OF_READER, organization_id=organization_id, after=after, limit=limit, **given)
        return rows_to(RoleBinding, rows)
    rows = await tx.all(
        "SELECT * FROM role_bindings WHERE organization_id = :organization_id AND id > :after ORDER BY id LIMIT :limit",
        organization_id=organization_id,
        after=after,
        limit=limit,
    )
    return rows_to(RoleBinding, rows)


async def roles_of(tx: Tx, principal_id: str) -> list[RoleBinding]:
    return rows_to(
        RoleBinding, await tx.all("SELECT * FROM role_bindings WHERE principal_id = :id ORDER BY path", id=principal_id)
    )


async def unbind_role(tx: Tx, binding_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE id = :id", id=binding_id)


async def delete_roles_of(tx: Tx, principal_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE principal_id = :id", id=principal_id)


async def delete_roles_of_module(tx: Tx, module_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE module_id = :id", id=module_id)


async def require_group(tx: Tx, organization_id: str, path: str) -> str:
    """Return the id of the group at this path."""
    found = await groups.id_at(tx, organization_id, path)
    if found is None:
        raise NotFound(f"there is no group `{path}`")
    return found


async def _module_id(tx: Tx, organization_id: str, path: str) -> str:
    row = await tx.one(
        "SELECT id FROM modules WHERE organization_id = :organization_id AND path = :path",
        organization_id=organization_id,
        path=path,
    )
    if row is None:
        raise NotFound(f"there is no module `{path}`")
    return row["id"]
