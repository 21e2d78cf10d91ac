"""Reads what an organization holds, limited to what the reader may see."""

from collections.abc import Collection, Sequence
from typing import LiteralString

from terracrew.api.groups import Group
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.fragments import IS_OPEN_JOB, child_of
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Visible

_GROUPS_ABOVE: LiteralString = """WITH RECURSIVE above (start_id, id, parent_id, depth) AS (
    SELECT groups.id, groups.id, groups.parent_id, groups.depth FROM batch JOIN groups ON groups.id = batch.id
    UNION ALL SELECT above.start_id, groups.id, groups.parent_id, groups.depth
    FROM above JOIN groups ON groups.id = above.parent_id)
SELECT start_id, id FROM above ORDER BY depth DESC"""

_SHARED: LiteralString = "SELECT id FROM runners WHERE organization_id IS NULL AND CAST(:is_shared AS boolean)"
_COUNTS_OF_ORGANIZATION: LiteralString = f"""SELECT name AS organization,
    (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE organization_id = :id AND {IS_OPEN_JOB}
        AND jobs.status = 'AWAITING_APPROVAL' LIMIT :most) AS counted) AS awaiting,
    (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE organization_id = :id AND {IS_OPEN_JOB}
        ORDER BY jobs.id LIMIT :most) AS counted) AS open_jobs,
    (SELECT count(*) FROM (SELECT 1 FROM modules WHERE organization_id = :id LIMIT :most) AS counted) AS modules,
    (SELECT count(*) FROM (SELECT id FROM runners WHERE organization_id = :id UNION ALL {_SHARED}
        LIMIT :most) AS counted) AS runners
FROM organizations WHERE id = :id"""
_COUNTS_OF_READER: LiteralString = f"""{visibility.SEEN_MODULES} SELECT name AS organization,
    (SELECT count(*) FROM (SELECT 1 FROM seen_modules JOIN jobs ON jobs.module_id = seen_modules.id AND {IS_OPEN_JOB}
        AND jobs.status = 'AWAITING_APPROVAL' LIMIT :most) AS counted) AS awaiting,
    (SELECT count(*) FROM (SELECT 1 FROM seen_modules JOIN jobs ON jobs.module_id = seen_modules.id AND {IS_OPEN_JOB}
        LIMIT :most) AS counted) AS open_jobs,
    (SELECT count(*) FROM (SELECT 1 FROM seen_modules LIMIT :most) AS counted) AS modules,
    (SELECT count(*) FROM (SELECT runners.id FROM seen_groups JOIN runners ON runners.group_id = seen_groups.id
        UNION ALL {_SHARED} LIMIT :most) AS counted) AS runners
FROM organizations WHERE id = :id"""
_PATHS_OF_ORGANIZATION: LiteralString = "SELECT path FROM groups WHERE organization_id = :id ORDER BY path LIMIT :most"
_PATHS_OF_READER: LiteralString = (
    visibility.SEEN_GROUPS
    + """ SELECT groups.path FROM seen_groups JOIN groups ON groups.id = seen_groups.id
    ORDER BY groups.path LIMIT :most"""
)
_PATHS_BELOW: LiteralString = f"""WITH RECURSIVE below (id) AS (
    SELECT CAST(:group_id AS text) UNION SELECT groups.id FROM below JOIN groups ON {child_of("below")})
SELECT groups.path FROM below JOIN groups ON groups.id = below.id ORDER BY groups.path LIMIT :most"""
_PATHS_BELOW_OF_READER: LiteralString = (
    visibility.SEEN_GROUPS
    + """ SELECT groups.path FROM seen_groups JOIN groups ON groups.id = seen_groups.id
    WHERE groups.path = CAST(:path AS text)
        OR substr(groups.path, 1, length(CAST(:path AS text)) + 1) = CAST(:path AS text) || '/'
    ORDER BY groups.path LIMIT :most"""
)

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


async def counts(tx: Tx, organization_id: str, seen: Visible, most: int, *, is_shared: bool) -> Row | None:
    """Return the name of an organization, and how many open jobs, modules and runners of it there are, each up to `most`.

    With `is_shared`, the runners that serve every organization are counted, too.
    """
    given: dict[str, Param] = {"id": organization_id, "most": most, "is_shared": is_shared}
    if seen.is_everything(organization_id):
        return await tx.one(_COUNTS_OF_ORGANIZATION, **given)
    return await tx.one(_COUNTS_OF_READER, **given, **visibility.params(seen))


async def paths(tx: Tx, organization_id: str, seen: Visible, most: int) -> list[str]:
    """Return the paths of the first `most` groups, ordered."""
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        rows = await tx.all(_PATHS_OF_ORGANIZATION, id=organization_id, most=most)
    else:
        rows = await tx.all(_PATHS_OF_READER, most=most, **visibility.params(seen))
    return [row["path"] for row in rows]


async def paths_below(tx: Tx, seen: Visible, organization_id: str, group_id: str, path: str, most: int) -> list[str]:
    """Return the paths of the first `most` of a group and the groups below it, ordered."""
    if seen.is_nothing:
        return []
    if seen.covers(authorize.group(organization_id, path)):
        rows = await tx.all(_PATHS_BELOW, group_id=group_id, most=most)
    else:
        rows = await tx.all(_PATHS_BELOW_OF_READER, path=path, most=most, **visibility.params(seen))
    return [row["path"] for row in rows]


async def above(tx: Tx, group_ids: Collection[str]) -> list[Row]:
    """Return a row for each of these groups (`start_id`) and each group above it, including itself (`id`), nearest first."""
    return await tx.each_id(_GROUPS_ABOVE, sorted(group_ids))


async def id_at(tx: Tx, organization_id: str, path: str) -> str | None:
    """Return the id of the group with this path."""
    return await tx.value(
        "SELECT id FROM groups WHERE organization_id = :organization_id AND path = :path",
        organization_id=organization_id,
        path=path,
    )


async def organization_id(tx: Tx, name_or_id: str) -> str | None:
    """Return the id of an organization by its name or its id."""
    return await tx.value("SELECT id FROM organizations WHERE id = :it OR name = :it", it=name_or_id)


async def only_organization_id(tx: Tx) -> str | None:
    """Return the id of the organization of a server that has no other; None if it has several."""
    rows = await tx.all("SELECT id FROM organizations LIMIT 2")
    return rows[0]["id"] if len(rows) == 1 else None


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
    rows = await tx.each_id(_CONTENTS, group_ids)
    return {row["id"]: row for row in rows}
