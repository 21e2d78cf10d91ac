"""Reads roles for people, with the names of who has them and who granted them."""

from typing import LiteralString

from terracrew.api.access import RoleListed
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.identity.access.role_store import ROLES
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible


def _name_of(column: LiteralString) -> LiteralString:
    """Return an expression for the name of the user or service account whose id is in the column."""
    return f"""coalesce((SELECT name FROM users WHERE users.id = role_bindings.{column}),
        (SELECT name FROM service_accounts WHERE service_accounts.id = role_bindings.{column}), '')"""


_SELECT: LiteralString = f"""SELECT {ROLES.columns}, {_name_of("principal_id")} AS principal_name,
    {_name_of("created_by")} AS created_by_name FROM role_bindings"""
_IS_VALID: LiteralString = "(role_bindings.expires_at IS NULL OR role_bindings.expires_at > :now)"
_PAGE: LiteralString = f" AND {_IS_VALID} AND role_bindings.id > :after ORDER BY role_bindings.id LIMIT :limit"
_ENDING: LiteralString = """ AND role_bindings.expires_at > :now AND role_bindings.expires_at <= :until
    ORDER BY role_bindings.expires_at, role_bindings.id LIMIT :count"""
_OF_ORGANIZATION: LiteralString = f"{_SELECT} WHERE organization_id = :organization_id"
_OF_READER: LiteralString = f"""{visibility.SEEN_MODULES} {_OF_ORGANIZATION}
    AND (group_id IN (SELECT id FROM seen_groups) OR module_id IN (SELECT id FROM seen_modules))"""
_OF_PRINCIPAL: LiteralString = " AND principal_id = :principal_id"
_LISTS: dict[tuple[bool, bool], LiteralString] = {
    (False, False): _OF_ORGANIZATION + _PAGE,
    (False, True): _OF_ORGANIZATION + _OF_PRINCIPAL + _PAGE,
    (True, False): _OF_READER + _PAGE,
    (True, True): _OF_READER + _OF_PRINCIPAL + _PAGE,
}
"""The statements by whether the reader sees only a part of the organization, and whether one principal is asked for."""
_AT_PLACE: LiteralString = f"""WITH RECURSIVE above (id, parent_id) AS (
    SELECT id, parent_id FROM groups WHERE id = :group_id
    UNION ALL SELECT groups.id, groups.parent_id FROM above JOIN groups ON groups.id = above.parent_id
        WHERE CAST(:is_inherited AS boolean))
{_SELECT} WHERE (group_id IN (SELECT id FROM above WHERE CAST(:module_id AS text) IS NULL OR CAST(:is_inherited AS boolean))
    OR module_id = :module_id)"""


async def principal_name(tx: Tx, principal_id: str) -> str | None:
    """Return the name of a user or service account; None if there is none with this id any more."""
    return await tx.value(
        """SELECT name FROM users WHERE id = :id UNION ALL SELECT name FROM service_accounts WHERE id = :id LIMIT 1""",
        id=principal_id,
    )


async def listing(
    tx: Tx, seen: Visible, organization_id: str, principal_id: str | None, after: str, limit: int
) -> list[RoleListed]:
    """Return the roles at the places that the reader may see, of everybody or of one principal."""
    if seen.is_nothing:
        return []
    is_part = not seen.is_everything(organization_id)
    given: dict[str, Param] = {"organization_id": organization_id, "now": tx.now, "after": after, "limit": limit}
    if principal_id is not None:
        given["principal_id"] = principal_id
    if is_part:
        given |= visibility.params(seen)
    return rows_to(RoleListed, await tx.all(_LISTS[is_part, principal_id is not None], **given))


async def ending(tx: Tx, seen: Visible, organization_id: str, until: float, count: int) -> list[RoleListed]:
    """Return the roles at the places that the reader may see that end next, before a time."""
    if seen.is_nothing:
        return []
    given: dict[str, Param] = {"organization_id": organization_id, "now": tx.now, "until": until, "count": count}
    if seen.is_everything(organization_id):
        return rows_to(RoleListed, await tx.all(_OF_ORGANIZATION + _ENDING, **given))
    return rows_to(RoleListed, await tx.all(_OF_READER + _ENDING, **given, **visibility.params(seen)))


async def at_place(
    tx: Tx, group_id: str, module_id: str | None, after: str, limit: int, *, is_inherited: bool
) -> list[RoleListed]:
    """Return the roles at a group, or at a module of that group, and with `is_inherited` those that apply from above."""
    rows = await tx.all(
        _AT_PLACE + _PAGE,
        group_id=group_id,
        module_id=module_id,
        is_inherited=is_inherited,
        now=tx.now,
        after=after,
        limit=limit,
    )
    return rows_to(RoleListed, rows)


async def owners_of(tx: Tx, group_id: str, module_id: str | None, limit: int) -> list[str]:
    """Return the names of those who can grant roles at a place: its owners, also those of the groups above it."""
    rows = await tx.all(
        _AT_PLACE + " AND role = 'owner'" + _PAGE,
        group_id=group_id,
        module_id=module_id,
        is_inherited=True,
        now=tx.now,
        after="",
        limit=limit,
    )
    return sorted({row["principal_name"] for row in rows} - {""})


async def holders(tx: Tx, module_id: str, roles: str, limit: int) -> list[Row]:
    """Return the ids and names of those who have one of these roles for a module and are not disabled, ordered by name.

    `roles` has each role between two spaces.
    """
    return await tx.all(
        """WITH RECURSIVE above (id, parent_id) AS (
            SELECT groups.id, groups.parent_id FROM modules JOIN groups ON groups.id = modules.group_id WHERE modules.id = :module_id
            UNION ALL SELECT groups.id, groups.parent_id FROM above JOIN groups ON groups.id = above.parent_id),
        able (id) AS (
            SELECT principal_id FROM role_bindings
            WHERE (group_id IN (SELECT id FROM above) OR module_id = :module_id)
                AND (expires_at IS NULL OR expires_at > :now) AND CAST(:roles AS text) LIKE '% ' || role || ' %')
        SELECT users.id, users.name FROM users WHERE NOT users.is_disabled AND users.id IN (SELECT id FROM able)
        UNION ALL SELECT service_accounts.id, service_accounts.name FROM service_accounts
            WHERE NOT service_accounts.is_disabled AND service_accounts.id IN (SELECT id FROM able)
        ORDER BY name LIMIT :limit""",
        module_id=module_id,
        roles=roles,
        now=tx.now,
        limit=limit,
    )


async def of_principal(tx: Tx, principal_id: str, organization_id: str | None = None) -> list[RoleListed]:
    """Return the roles of a principal that have not expired, in one organization or in all of them."""
    rows = await tx.all(
        f"{_SELECT} WHERE principal_id = :id AND {_IS_VALID}"
        " AND (CAST(:organization_id AS text) IS NULL OR organization_id = :organization_id) ORDER BY path",
        id=principal_id,
        organization_id=organization_id,
        now=tx.now,
    )
    return rows_to(RoleListed, rows)


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
