"""Reads the modules of one level of the tree, and counts those below a group or below the places of a runner."""

from typing import LiteralString

from terracrew.api.groups import Group
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import child_of
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Visible

_PAGE: LiteralString = " AND modules.name > :after ORDER BY modules.name LIMIT :count"
_IN_GROUP: LiteralString = "SELECT modules.id FROM modules WHERE modules.group_id = :group_id" + _PAGE
_IN_GROUP_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + " SELECT modules.id FROM seen_modules JOIN modules ON modules.id = seen_modules.id"
    + " WHERE modules.group_id = :group_id"
    + _PAGE
)
_COUNT_BELOW: LiteralString = f"""WITH RECURSIVE below (id) AS (
    SELECT CAST(:group_id AS text) UNION SELECT groups.id FROM below JOIN groups ON {child_of("below")})
SELECT count(*) AS modules FROM (
    SELECT 1 FROM below JOIN modules ON modules.group_id = below.id LIMIT :most) AS counted"""
_COUNT_OF_ORGANIZATION: LiteralString = """SELECT count(*) AS modules FROM (
    SELECT 1 FROM modules WHERE modules.organization_id = :organization_id LIMIT :most) AS counted"""
_COUNT_OF_RUNNER: LiteralString = f"""WITH RECURSIVE places (id) AS (
    SELECT place_id FROM assignments WHERE runner_id = :runner_id
    UNION SELECT groups.id FROM places JOIN groups ON {child_of("places")})
SELECT count(*) AS modules FROM (
    SELECT 1 FROM places JOIN modules ON modules.group_id = places.id LIMIT :most) AS counted"""


async def in_group(tx: Tx, seen: Visible, group: Group, after: str, count: int) -> list[str]:
    """Return the ids of the first `count` modules directly in a group after the name `after` that the reader may see."""
    if seen.is_nothing:
        return []
    if seen.covers(authorize.group(group.organization_id, group.path)):
        rows = await tx.all(_IN_GROUP, group_id=group.id, after=after, count=count)
    else:
        rows = await tx.all(_IN_GROUP_OF_READER, group_id=group.id, after=after, count=count, **visibility.params(seen))
    return [row["id"] for row in rows]


async def count_below(tx: Tx, group: Group, most: int) -> int:
    """Return how many modules are in a group and below it, or `most` if there are more."""
    if group.path == "":
        return await tx.value(_COUNT_OF_ORGANIZATION, organization_id=group.organization_id, most=most)
    return await tx.value(_COUNT_BELOW, group_id=group.id, most=most)


async def count_of_runner(tx: Tx, runner_id: str, most: int) -> int:
    """Return how many modules are in and below the groups that a runner is assigned to, or `most` if there are more."""
    return await tx.value(_COUNT_OF_RUNNER, runner_id=runner_id, most=most)
