"""Moves a module to another path, unless a run of its group still has something to do with it."""

from terracrew.api.modules import Module
from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.group_runs import store
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.modules import moving, service


async def move(tx: Tx, who: Principal, reference: str, to: str) -> Module:
    """Give a module another path. Runs are started under the same lock, so none begins with the module in its old group."""
    module = await service.find(tx, who, reference, Verb.TREE_WRITE)
    await groups.hold_organization(tx, module.organization_id)
    if await store.is_open_for(tx, module.id):
        raise Conflict(
            f"module `{module.path}` is part of a run of its group: stop the run first, or wait, and move it then"
        )
    return await moving.move(tx, who, module.id, to)
