"""Rows of role bindings."""

from collections.abc import Iterable, Sequence
from typing import LiteralString

from terracrew import ids
from terracrew.api.access import RoleBinding
from terracrew.errors import NotFound
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.db.statements.table import Table, excluded_assignments, values
from terracrew.server.tree.groups import reads as groups

ROLES = Table("role_bindings", RoleBinding)
_REPLACED: LiteralString = excluded_assignments("role", "created_by", "created_at", "expires_at", "source_rule")
_ON_CONFLICT: LiteralString = (
    f"ON CONFLICT (principal_id, organization_id, place_kind, path, source) DO UPDATE SET {_REPLACED}"
)
_BIND_ROLE: LiteralString = f"{ROLES.insert('group_id', 'module_id')} {_ON_CONFLICT} RETURNING {ROLES.columns}"
_BIND_ROLES: LiteralString = f"{ROLES.insert_batch(*ROLES.fields, 'group_id', 'module_id')} {_ON_CONFLICT}"


async def bind_role(
    tx: Tx,
    organization_id: str,
    kind: str,
    principal_id: str,
    role: str,
    place_kind: str,
    path: str,
    created_by: str,
    expires_at: float | None = None,
) -> RoleBinding:
    """Give a principal a role at a place. It replaces the one that somebody has granted to the principal at exactly this place."""
    group_id = await require_group(tx, organization_id, path) if place_kind == "group" else None
    module_id = await require_module(tx, organization_id, path) if place_kind == "module" else None
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
        "expires_at": expires_at,
        "source": "",
        "source_rule": "",
    }
    row = await tx.one(_BIND_ROLE, **wanted, group_id=group_id, module_id=module_id)
    return row_to(RoleBinding, row or {})


async def bind_roles(tx: Tx, bindings: Sequence[RoleBinding]) -> None:
    """Write the roles of many principals. Each replaces the one that its principal had at this place from the same source."""
    places: dict[tuple[str, str, str], tuple[str | None, str | None]] = {}
    for each in bindings:
        place = each.organization_id, each.place_kind, each.path
        if place not in places:
            is_group = each.place_kind == "group"
            found = await (require_group if is_group else require_module)(tx, each.organization_id, each.path)
            places[place] = (found, None) if is_group else (None, found)
    await tx.each(
        _BIND_ROLES,
        ROLES.types_of(*ROLES.fields, group_id="text", module_id="text"),
        [(*values(each), *places[each.organization_id, each.place_kind, each.path]) for each in bindings],
    )


async def unbind_roles(tx: Tx, bindings: Sequence[RoleBinding]) -> None:
    await tx.each_id("DELETE FROM role_bindings WHERE id IN (SELECT id FROM batch)", [each.id for each in bindings])


async def role(tx: Tx, binding_id: str) -> RoleBinding:
    row = await tx.one("SELECT * FROM role_bindings WHERE id = :id", id=binding_id)
    if row is None:
        raise no_role(binding_id)
    return row_to(RoleBinding, row)


def no_role(binding_id: str) -> NotFound:
    return NotFound(f"there is no role binding {binding_id}")


async def unbind_role(tx: Tx, binding_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE id = :id", id=binding_id)


async def has_expired(tx: Tx) -> bool:
    return await tx.one("SELECT id FROM role_bindings WHERE expires_at <= :now LIMIT 1", now=tx.now) is not None


async def delete_expired(tx: Tx, count: int) -> list[RoleBinding]:
    """Remove roles that have expired, and return them."""
    rows = await tx.all(
        f"""DELETE FROM role_bindings WHERE id IN (
            SELECT id FROM role_bindings WHERE expires_at <= :now ORDER BY expires_at LIMIT :count)
        RETURNING {ROLES.columns}""",
        now=tx.now,
        count=count,
    )
    return rows_to(RoleBinding, rows)


async def roles_of_source(tx: Tx, principal_ids: Iterable[str], source: str) -> list[RoleBinding]:
    """Return the roles that principals have from a source, ordered by their places."""
    rows = await tx.each(
        f"SELECT {ROLES.columns} FROM batch JOIN role_bindings ON role_bindings.principal_id = batch.principal_id"
        " AND role_bindings.source = batch.source ORDER BY role_bindings.path, role_bindings.place_kind",
        {"principal_id": "text", "source": "text"},
        [(each, source) for each in principal_ids],
    )
    return rows_to(RoleBinding, rows)


async def all_of_source(tx: Tx, source: str) -> list[RoleBinding]:
    return await ROLES.all(tx, "FROM role_bindings WHERE source = :source ORDER BY id", source=source)


async def delete_roles_of(tx: Tx, principal_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE principal_id = :id", id=principal_id)


async def move_roles_of_module(tx: Tx, module_id: str, path: str) -> None:
    """Note the new path of a module. Who has a role there keeps it."""
    await tx.run("UPDATE role_bindings SET path = :path WHERE module_id = :id", id=module_id, path=path)


async def delete_roles_of_module(tx: Tx, module_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE module_id = :id", id=module_id)


async def hold_rights(tx: Tx, principal_id: str, organization_id: str) -> None:
    """Lock the rows that a principal's rights in an organization depend on, so that they end only after this transaction."""
    await tx.one("SELECT id FROM users WHERE id = :id FOR SHARE", id=principal_id)
    await tx.one("SELECT id FROM service_accounts WHERE id = :id FOR SHARE", id=principal_id)
    await tx.all(
        "SELECT id FROM role_bindings WHERE principal_id = :id AND organization_id = :own ORDER BY id FOR SHARE",
        id=principal_id,
        own=organization_id,
    )


async def require_group(tx: Tx, organization_id: str, path: str) -> str:
    """Return the id of the group at this path."""
    found = await groups.id_at(tx, organization_id, path)
    if found is None:
        raise NotFound(f"there is no group `{path}`")
    return found


async def require_module(tx: Tx, organization_id: str, path: str) -> str:
    """Return the id of the module at this path, which it keeps until the transaction ends."""
    row = await tx.one(
        "SELECT id FROM modules WHERE organization_id = :organization_id AND path = :path FOR KEY SHARE",
        organization_id=organization_id,
        path=path,
    )
    if row is None:
        raise NotFound(f"there is no module `{path}`")
    return row["id"]


async def module_id_at(tx: Tx, organization_id: str, path: str) -> str | None:
    return await tx.value(
        "SELECT id FROM modules WHERE organization_id = :organization_id AND path = :path",
        organization_id=organization_id,
        path=path,
    )


async def is_member(tx: Tx, principal_id: str, organization_id: str) -> bool:
    """Return whether a principal has a role anywhere in an organization."""
    row = await tx.one(
        "SELECT id FROM role_bindings WHERE principal_id = :id AND organization_id = :organization_id"
        " AND (expires_at IS NULL OR expires_at > :now) LIMIT 1",
        id=principal_id,
        organization_id=organization_id,
        now=tx.now,
    )
    return row is not None
