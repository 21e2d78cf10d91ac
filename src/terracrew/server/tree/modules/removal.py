"""Deleting a module: it disappears in one small transaction, and `retention/deletion` removes what was kept for it.

A deleted module belongs to an organization that has no members, so nobody can see it or its jobs, and its path is free.
"""

from typing import NamedTuple

from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.tree.groups import store as groups
from terracrew.server.tree.groups.store import DELETED_ORGANIZATION
from terracrew.server.tree.modules import reads, store


class RemainingContents(NamedTuple):
    unfinished_jobs: int
    jobs: int
    states: int


async def count_contents(tx: Tx, module_id: str) -> RemainingContents:
    row = await reads.remains(tx, module_id)
    assert row is not None
    return RemainingContents(row["unfinished"], row["jobs"], row["states"])


async def hide(tx: Tx, module_id: str) -> None:
    """Hide the module and everything that belongs to it from everybody."""
    group_id = await groups.ensure_deleted_place(tx)
    await role_store.delete_roles_of_module(tx, module_id)
    await store.hide(tx, module_id, DELETED_ORGANIZATION, group_id)
    tx.wake("deletions", module_id)
