"""Deleting a module: it disappears in one small transaction, and `retention/deletion` removes what was kept for it.

A deleted module belongs to an organization that has no members, so nobody can see it or its jobs, and its path is free.
"""

from typing import NamedTuple

from terracrew.server.db.seam import Tx

DELETED_ORGANIZATION = "org_deleted"
_DELETED_GROUP = "grp_deleted"


class Kept(NamedTuple):
    unfinished_jobs: int
    jobs: int
    states: int


async def kept(tx: Tx, module_id: str) -> Kept:
    row = await tx.one(
        """SELECT (SELECT count(*) FROM jobs WHERE module_id = :id AND finished_at IS NULL) AS unfinished,
                  (SELECT count(*) FROM jobs WHERE module_id = :id) AS jobs,
                  (SELECT count(*) FROM states WHERE module_id = :id) AS states""",
        id=module_id,
    )
    assert row is not None
    return Kept(row["unfinished"], row["jobs"], row["states"])


async def delete(tx: Tx, module_id: str) -> None:
    """Hide the module and whatever belongs to it from everybody."""
    await tx.run(
        """INSERT INTO organizations (id, name, created_at) VALUES (:id, :name, :now) ON CONFLICT DO NOTHING""",
        id=DELETED_ORGANIZATION,
        name="(deleted modules)",
        now=tx.now,
    )
    await tx.run(
        """INSERT INTO groups (id, organization_id, name, path, depth, created_at)
        VALUES (:id, :organization_id, '', '', 0, :now) ON CONFLICT DO NOTHING""",
        id=_DELETED_GROUP,
        organization_id=DELETED_ORGANIZATION,
        now=tx.now,
    )
    await tx.run("DELETE FROM role_bindings WHERE module_id = :id", id=module_id)
    await tx.run(
        """UPDATE modules SET organization_id = :organization_id, group_id = :group_id, path = id, name = id,
            runner_id = NULL, runner_instance_name = NULL
        WHERE id = :id""",
        organization_id=DELETED_ORGANIZATION,
        group_id=_DELETED_GROUP,
        id=module_id,
    )
    tx.wake("deletions", module_id)


async def next_deleted(tx: Tx, after: str) -> str | None:
    """Return a deleted module of which something is left, by id."""
    row = await tx.one(
        """SELECT id FROM modules WHERE organization_id = :organization_id AND path > :after ORDER BY path LIMIT 1""",
        organization_id=DELETED_ORGANIZATION,
        after=after,
    )
    return None if row is None else row["id"]
