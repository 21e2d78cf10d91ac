"""Reads the modules of a page of a list, limited to those that the reader may see."""

from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

_BELOW: LiteralString = """WITH RECURSIVE below (id) AS (
    SELECT CAST(:group_id AS text) UNION SELECT groups.id FROM below JOIN groups ON groups.parent_id = below.id)"""
_END: LiteralString = " AND modules.id > :after ORDER BY modules.id LIMIT :count"
_OF_ORGANIZATION: LiteralString = (
    "SELECT modules.* FROM modules WHERE modules.organization_id = :organization_id" + _END
)
_IN_GROUP: LiteralString = "SELECT modules.* FROM modules WHERE modules.group_id = :group_id" + _END
_BELOW_GROUP: LiteralString = (
    _BELOW + " SELECT modules.* FROM below JOIN modules ON modules.group_id = below.id WHERE true" + _END
)
_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT modules.* FROM seen_modules JOIN modules ON modules.id = seen_modules.id
    WHERE (CAST(:group_id AS text) IS NULL OR modules.group_id = CAST(:group_id AS text))
        AND substr(modules.path, 1, length(CAST(:below AS text))) = CAST(:below AS text)"""
    + _END
)


class ModuleScope(msgspec.Struct, frozen=True):
    """The part of the tree that a list is about: an organization, or a group with or without what is below it."""

    organization_id: str
    group_id: str | None = None
    group_path: str = ""
    is_recursive: bool = False


async def page(tx: Tx, seen: Visible, within: ModuleScope, after: str, count: int) -> list[Row]:
    """The first `count` modules after that id which the reader may see."""
    if seen.is_nothing:
        return []
    given: dict[str, Param] = {"after": after, "count": count}
    if not seen.is_everything(within.organization_id):
        below = f"{within.group_path}/" if within.is_recursive and within.group_path else ""
        group_id = None if within.is_recursive else within.group_id
        return await tx.all(_OF_READER, group_id=group_id, below=below, **given, **visibility.params(seen))
    if within.group_id is None:
        return await tx.all(_OF_ORGANIZATION, organization_id=within.organization_id, **given)
    return await tx.all(_BELOW_GROUP if within.is_recursive else _IN_GROUP, group_id=within.group_id, **given)


async def names(tx: Tx, module_id: str) -> Row | None:
    """Return the path, the organization and the audiences of a module, for the subject of a token."""
    return await tx.one(
        """SELECT modules.path, modules.oidc_audiences, organizations.name AS organization
        FROM modules JOIN organizations ON organizations.id = modules.organization_id WHERE modules.id = :id""",
        id=module_id,
    )
