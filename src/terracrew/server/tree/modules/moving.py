"""Gives a module another path: it is renamed, or gets into another group of its organization, with everything that it has."""

from terracrew.api.modules import Module
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.announcements import channel_store as channels
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_reads, role_store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import crew_reads
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import store as group_store
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.modules import lock_store, service, store
from terracrew.server.tree.step_settings import store as step_settings


async def move(tx: Tx, who: Principal, module_id: str, to: str) -> Module:
    """The caller must own every group that the module leaves, and the one that it gets into: the rules of the former end.

    Jobs, states, outputs, inputs, roles and who uses its outputs belong to the module and stay. No job may be open meanwhile: it was
    created with what the old groups say.
    """
    module = await store.hold(tx, module_id)
    if module is None:
        raise NotFound("the module has just been deleted")
    group_path, name = paths.split(paths.parse(to))
    if not name:
        raise Invalid.in_field("path", "it is empty, and a module needs a name")
    left = _highest_left(module.path, group_path)
    if not (await authorize.decide(tx, who, Verb.TREE_WRITE, authorize.group(module.organization_id, left))).is_allowed:
        where = f"group `{left}`" if left else "the organization"
        raise Forbidden(f"only owners of {where} may move this module to `{to}`", path=left)
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(module.organization_id, group_path))
    if paths.join(group_path, name) == module.path:
        return module
    group = await group_store.at(tx, module.organization_id, group_path)
    if group is None:
        raise NotFound(f"there is no group `{group_path}` to move it to: create it first", field="path")
    if count := (await service.count_contents(tx, module.id)).unfinished_jobs:
        raise Conflict(
            f"module `{module.path}` has {count} unfinished {'job' if count == 1 else 'jobs'}: cancel them first, or wait, and move it "
            "then",
            unfinished_jobs=count,
        )
    await lock_store.require_free(tx, module.id, module.path)
    await _check_bound(tx, module, group_path)
    path = await groups.hold(tx, group, name)
    await store.move(tx, module.id, group.id, name, path)
    await assignments.move(tx, module.id, path)
    await role_store.move_roles_of_module(tx, module.id, path)
    await step_settings.move(tx, module.id, path)
    await channels.move(tx, module.id, path)
    details = {"path": path, "before": module.path}
    await audit.record(tx, who, "module.move", "module", module.id, details, organization_id=module.organization_id)
    tx.wake("tree", module.id)
    after = await store.get(tx, module.id)
    assert after is not None
    return after


def _highest_left(path: str, group_path: str) -> str:
    """Return the highest group that a module at `path` leaves for another group; its own group if it stays in or below it."""
    left = paths.split(path)[0]
    while left and not paths.is_within(group_path, above := paths.split(left)[0]):
        left = above
    return left


async def _check_bound(tx: Tx, module: Module, group_path: str) -> None:
    """Refuse to take a module away from runners and service accounts that have nothing to do outside their own group."""
    runners = await crew_reads.groups_of_assigned(tx, module.id)
    accounts = await role_reads.groups_of_holders(tx, module.id)
    outside = [
        *(f"runner `{row['path']}`" for row in runners if not paths.is_within(group_path, row["group_path"])),
        *(f"service account {row['name']}" for row in accounts if not paths.is_within(group_path, row["group_path"])),
    ]
    if outside:
        raise Conflict(
            f"module `{module.path}` has its own assignments or roles of {', '.join(outside)}, which can serve nothing outside of their "
            "own groups: withdraw or revoke these first",
            outside=outside,
        )
