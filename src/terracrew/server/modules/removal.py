"""Deleting a module: it disappears in one small transaction, and `retention/deletion` removes what was kept for it.

A deleted module belongs to an organization that has no members, so nobody can see it or its jobs, and its path is free.
"""

from typing import NamedTuple

from terracrew.server.db.seam import Tx
from terracrew.server.groups import store as groups
from terracrew.server.groups.store import DELETED_ORGANIZATION
from terracrew.server.identity.access import store as access
from terracrew.server.modules import store


class Remains(NamedTuple):
    unfinished_jobs: int
    jobs: int
    states: int


async def kept(tx: Tx, module_id: str) -> Remains:
    row = await tx.one(
        """SELECT (SELECT count(*) FROM jobs WHERE module_id = :id AND finished_at IS NULL) AS unfinished,
                  (SELECT count(*) FROM jobs WHERE module_id = :id) AS jobs,
                  (SELECT count(*) FROM states WHERE module_id = :id) AS states""",
        id=module_id,
    )
    assert row is not None
    return Remains(row["unfinished"], row["jobs"], row["states"])


async def delete(tx: Tx, module_id: str) -> None:
    """Hide the module and whatever belongs to it from everybody."""
    group_id = await groups.ensure_deleted_place(tx)
    await access.delete_roles_of_module(tx, module_id)
    await store.hide(tx, module_id, DELETED_ORGANIZATION, group_id)
    tx.wake("deletions", module_id)


async def next_deleted(tx: Tx, after: str) -> str | None:
    """Return a deleted module of which something is left, by id."""
    row = await tx.one(
        """SELECT id FROM modules WHERE organization_id = :organization_id AND path > :after ORDER BY path LIMIT 1""",
        organization_id=DELETED_ORGANIZATION,
        after=after,
    )
    return None if row is None else row["id"]
