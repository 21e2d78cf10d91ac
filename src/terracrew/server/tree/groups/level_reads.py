"""Reads one level of the tree, and the way from a group up to its organization."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.api.groups import Group
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Visible

_PAGE: LiteralString = " AND groups.name > :after ORDER BY groups.name LIMIT :count"
_IN_GROUP: LiteralString = "SELECT groups.* FROM groups WHERE groups.parent_id = :parent" + _PAGE
_IN_GROUP_OF_READER: LiteralString = (
    visibility.WAY_GROUPS
    + """ SELECT groups.* FROM (SELECT id FROM seen_groups UNION SELECT id FROM way_groups) AS known
    JOIN groups ON groups.id = known.id WHERE groups.parent_id = :parent"""
    + _PAGE
)
_LINEAGE: LiteralString = """WITH RECURSIVE above (id, parent_id) AS (
    SELECT groups.id, groups.parent_id FROM groups WHERE groups.id = :id
    UNION ALL SELECT groups.id, groups.parent_id FROM above JOIN groups ON groups.id = above.parent_id)
SELECT groups.* FROM above JOIN groups ON groups.id = above.id ORDER BY groups.depth DESC"""
_CONTENTS: LiteralString = """SELECT batch.id,
    (SELECT count(*) FROM (SELECT 1 FROM groups WHERE groups.parent_id = batch.id LIMIT 1000) AS counted) AS groups,
    (SELECT count(*) FROM (SELECT 1 FROM modules WHERE modules.group_id = batch.id LIMIT 1000) AS counted) AS modules
FROM batch"""
"""Counts up to 1,000. No database allows a column in LIMIT."""


async def children(tx: Tx, seen: Visible, group: Group, after: str, count: int) -> list[Group]:
    """Return the first `count` groups directly in a group after the name `after`, ordered by name.

    Only groups that the reader may see, and those on the way to what the reader may see, are returned.
    """
    if seen.is_nothing:
        return []
    if seen.covers(authorize.group(group.organization_id, group.path)):
        rows = await tx.all(_IN_GROUP, parent=group.id, after=after, count=count)
    else:
        rows = await tx.all(_IN_GROUP_OF_READER, parent=group.id, after=after, count=count, **visibility.params(seen))
    return rows_to(Group, rows)


async def lineage(tx: Tx, group_id: str) -> list[Group]:
    """Return a group and all groups above it, the nearest first. The last one is the organization."""
    return rows_to(Group, await tx.all(_LINEAGE, id=group_id))


async def contents(tx: Tx, group_ids: Sequence[str]) -> dict[str, Row]:
    """Return how many groups and modules are directly in each of these groups, counted up to 1,000."""
    rows = await tx.each(_CONTENTS, {"id": "text"}, [(each,) for each in group_ids])
    return {row["id"]: row for row in rows}
