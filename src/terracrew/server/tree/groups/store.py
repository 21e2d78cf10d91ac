"""The rows of organizations and groups."""

from typing import LiteralString

from terracrew import ids
from terracrew.api import fields
from terracrew.api.groups import Group, GroupSettings, Organization
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

ORGANIZATIONS = Table("organizations", Organization)
GROUPS = Table("groups", Group)
DELETED_ORGANIZATION = "org_deleted"
"""The organization of deleted modules. It has no members, so nobody sees what is in it."""
_DELETED_GROUP = "grp_deleted"
_NO_SETTINGS = GroupSettings()
_SETTINGS = GROUPS.fields_of(GroupSettings)
_UPDATE = f"UPDATE groups SET {assignments(*_SETTINGS)} WHERE id = :id"


async def ensure_deleted_place(tx: Tx) -> str:
    """Make the organization and the group of deleted modules if they are missing, and return the id of the group."""
    now = tx.moment
    organization = Organization(DELETED_ORGANIZATION, "(deleted modules)", now)
    await tx.run(ORGANIZATIONS.insert() + " ON CONFLICT DO NOTHING", **to_params(organization))
    group = Group(
        id=_DELETED_GROUP,
        organization_id=DELETED_ORGANIZATION,
        parent_id=None,
        name="",
        path="",
        depth=0,
        created_at=now,
    )
    await tx.run(GROUPS.insert() + " ON CONFLICT DO NOTHING", **to_params(group))
    return _DELETED_GROUP


async def take_job_numbers(tx: Tx, organization_id: str, count: int) -> range:
    """Return the next numbers for jobs of an organization; its row is locked until the transaction ends."""
    row = await tx.one(
        "UPDATE organizations SET next_job_number = next_job_number + :count WHERE id = :id RETURNING next_job_number",
        count=count,
        id=organization_id,
    )
    assert row is not None
    return range(row["next_job_number"] - count, row["next_job_number"])


async def skip_job_number(tx: Tx, organization_id: str, number: int) -> None:
    """Give no later job of an organization this number, which an earlier database had given already."""
    await tx.run(
        "UPDATE organizations SET next_job_number = :number + 1 WHERE id = :id AND next_job_number <= :number",
        id=organization_id,
        number=number,
    )


async def insert_organization(tx: Tx, name: str) -> Organization | None:
    """Insert an organization. Returns None if one of this name exists."""
    made = Organization(ids.new("org"), name, tx.moment)
    is_new = await tx.run(ORGANIZATIONS.insert() + " ON CONFLICT (name) DO NOTHING", **to_params(made))
    return made if is_new else None


async def organization_named(tx: Tx, name: str) -> Organization:
    row = await tx.one("SELECT * FROM organizations WHERE name = :name", name=name)
    if row is None:
        raise NotFound(f"there is no organization {name!r}")
    return row_to(Organization, row)


async def insert(
    tx: Tx,
    organization_id: str,
    parent: Group | None,
    name: str,
    path: str,
    settings: GroupSettings = _NO_SETTINGS,
) -> Group:
    made = fields.created(
        Group,
        settings,
        id=ids.new("grp"),
        organization_id=organization_id,
        parent_id=parent and parent.id,
        name=name,
        path=path,
        depth=parent.depth + 1 if parent else 0,
        created_at=tx.moment,
    )
    await tx.run(GROUPS.insert(), **to_params(made))
    return made


async def update(tx: Tx, group: Group) -> None:
    await tx.run(_UPDATE, **to_params(group, "id", *_SETTINGS))


async def get(tx: Tx, id: str) -> Group | None:  # noqa: A002
    return await GROUPS.find(tx, id=id)


async def at(tx: Tx, organization_id: str, path: str) -> Group | None:
    return await GROUPS.find(tx, organization_id=organization_id, path=path)


async def hold(tx: Tx, id: str) -> None:  # noqa: A002
    """Lock the row of a group until the transaction ends, so that nothing is added to or removed from it."""
    await tx.one("SELECT id FROM groups WHERE id = :id FOR UPDATE", id=id)


_PAGE: LiteralString = " AND groups.path <> '' AND groups.id > :after ORDER BY groups.id LIMIT :limit"
_OF_ORGANIZATION: LiteralString = "SELECT groups.* FROM groups WHERE organization_id = :organization_id" + _PAGE
_IN_GROUP: LiteralString = "SELECT groups.* FROM groups WHERE parent_id = :parent" + _PAGE
_OF_READER: LiteralString = (
    visibility.WAY_GROUPS
    + """ SELECT groups.* FROM (SELECT id FROM seen_groups UNION SELECT id FROM way_groups) AS known
    JOIN groups ON groups.id = known.id
    WHERE (CAST(:parent AS text) IS NULL OR groups.parent_id = CAST(:parent AS text))"""
    + _PAGE
)


async def within(
    tx: Tx, seen: Visible, organization_id: str, parent: str | None, after: str, limit: int
) -> list[Group]:
    """Return the groups directly in a group, or all groups below the root if `parent` is None, ordered by id.

    Only groups that the reader may see, and those on the way to what the reader may see, are returned.
    """
    if seen.is_nothing:
        return []
    if not seen.is_everything(organization_id):
        rows = await tx.all(_OF_READER, parent=parent, after=after, limit=limit, **visibility.params(seen))
    elif parent is None:
        rows = await tx.all(_OF_ORGANIZATION, organization_id=organization_id, after=after, limit=limit)
    else:
        rows = await tx.all(_IN_GROUP, parent=parent, after=after, limit=limit)
    return rows_to(Group, rows)


async def contents(tx: Tx, id: str) -> dict[str, int]:  # noqa: A002
    """Return how many things of each kind are directly in a group."""
    row = await tx.one(
        """SELECT (SELECT count(*) FROM groups WHERE parent_id = :id) AS groups,
                  (SELECT count(*) FROM modules WHERE group_id = :id) AS modules,
                  (SELECT count(*) FROM runners WHERE group_id = :id) AS runners,
                  (SELECT count(*) FROM service_accounts WHERE group_id = :id) AS service_accounts,
                  (SELECT count(*) FROM cloud_identities WHERE group_id = :id) AS cloud_identities,
                  (SELECT count(*) FROM forge_connections WHERE group_id = :id) AS forge_connections""",
        id=id,
    )
    return dict(row or {})


async def is_module(tx: Tx, organization_id: str, path: str) -> bool:
    row = await tx.one(
        "SELECT id FROM modules WHERE organization_id = :organization_id AND path = :path",
        organization_id=organization_id,
        path=path,
    )
    return row is not None


async def delete(tx: Tx, id: str) -> None:  # noqa: A002
    await tx.run("DELETE FROM groups WHERE id = :id", id=id)
