"""Assigns a runner to a group or a module, and takes the assignment back, for callers who may change the runner."""

from terracrew.api.runners import AssignTo, Runner
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service
from terracrew.server.runners import service as runners
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places
from terracrew.server.tree.modules import service as modules


async def assign(tx: Tx, who: Principal, runner: str, wanted: AssignTo) -> Runner:
    """Let a module, or a group and thereby every module below it, use a runner."""
    found = await runners.hold(tx, who, runner)  # it cannot be removed meanwhile
    place = await _place(tx, who, wanted)
    if place.noun == "module":
        await modules.hold_at(tx, place.id, place.path)
    if await service.assign(tx, found, place.id, place.noun, place.organization_id, place.path):
        await runners.note(tx, who, "runner.assign", found, kind=place.noun, place=place.path)
    return found


async def withdraw(tx: Tx, who: Principal, runner: str, wanted: AssignTo) -> Runner:
    """Remove an assignment. Jobs that the runner already has continue."""
    found = await runners.hold(tx, who, runner)  # it cannot be removed meanwhile
    place = await _place(tx, who, wanted)
    if not await assignments.withdraw(tx, found.id, place.id):
        raise NotFound(f"`{found.path}` is not assigned to {place.noun} `{place.path}`")
    await runners.note(tx, who, "runner.withdraw", found, kind=place.noun, place=place.path)
    return found


async def _place(tx: Tx, who: Principal, wanted: AssignTo) -> InputPlace:
    """Return the place of this reference. A group and a module never share a path, so the kind may be left out."""
    if wanted.kind != "module":
        try:
            group = await groups.show(tx, who, wanted.place)
            return places.of_group(group)
        except NotFound:
            if wanted.kind == "group":
                raise
    module = await modules.find(tx, who, wanted.place, Verb.TREE_READ)
    return places.of_module(module)
