"""Finds the place of the tree at which inputs are set or listed: the organization, a group or a module."""

from terracrew import ids
from terracrew.api.groups import Group
from terracrew.api.modules import Module
from terracrew.errors import Invalid, NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import store as groups
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import store


async def find(tx: Tx, who: Principal, reference: str) -> InputPlace:
    """Find a group or module by its id or path, if the caller may see it. `/` and an empty path are the organization."""
    unseen = NotFound(f"there is no group or module `{reference[:300]}` here, or you may not see it")
    found = await _named(tx, who, reference)
    if found is None:
        raise unseen
    at = of_module(found) if isinstance(found, Module) else of_group(found)
    place = authorize.module if at.kind == "module" else authorize.group
    await authorize.require(tx, who, Verb.TREE_READ, place(at.organization_id, at.path), unseen)
    return at


async def hold(tx: Tx, who: Principal, reference: str) -> InputPlace:
    """Find a place, and lock its row until the transaction ends."""
    at = await find(tx, who, reference)
    if at.kind == "module":
        is_left = await store.hold(tx, at.id) is not None
    else:
        await groups.hold(tx, at.id)
        is_left = await groups.get(tx, at.id) is not None
    if not is_left:
        raise NotFound(f"{at.words} has just been deleted")
    return at


def of_module(module: Module) -> InputPlace:
    return InputPlace(module.id, module.organization_id, "module", module.path)


def of_group(group: Group) -> InputPlace:
    return InputPlace(group.id, group.organization_id, "group" if group.path else "organization", group.path)


async def _named(tx: Tx, who: Principal, reference: str) -> Module | Group | None:
    if reference.startswith("mod_"):
        return await store.get(tx, ids.parse("mod", reference))
    if reference.startswith("grp_"):
        return await groups.get(tx, ids.parse("grp", reference))
    if who.organization_id is None:
        raise Invalid("choose an organization first (--organization on the command line)")
    path = "" if reference == "/" else paths.parse(reference)
    module = await store.at(tx, who.organization_id, path) if path else None
    return module or await groups.at(tx, who.organization_id, path)
