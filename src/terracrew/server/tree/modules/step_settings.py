"""Shows and changes what a group or a module adds to the steps of its jobs, for callers who may."""

from terracrew.api.steps import NewStepSettings, StepSettings
from terracrew.errors import NotFound
from terracrew.protocol.spec import Step
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import store as group_store
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places
from terracrew.server.tree.modules import service as modules
from terracrew.server.tree.step_settings import model, store


async def group(tx: Tx, who: Principal, reference: str, verb: Verb) -> InputPlace:
    found = await groups.find(tx, who, reference)
    await authorize.require(tx, who, verb, groups.place(found), groups.unseen(reference))
    return places.of_group(found)


async def module(tx: Tx, who: Principal, reference: str, verb: Verb) -> InputPlace:
    found = await modules.find(tx, who, reference, verb)
    return places.of_module(found)


async def of_place(tx: Tx, place: InputPlace, *, is_inherited: bool) -> list[StepSettings]:
    """Return what a place adds to the steps; with `is_inherited`, also what the groups above it add, the highest first."""
    if is_inherited:
        return await store.that_apply(tx, place.organization_id, place.path)
    return await store.of_place(tx, place.id)


async def put(tx: Tx, who: Principal, place: InputPlace, step: Step, wanted: NewStepSettings) -> StepSettings:
    """Replace what a place adds to a step."""
    model.check(step, wanted)
    await _hold(tx, place)
    await store.put(tx, place.id, place.organization_id, place.path, step, wanted, who.name)
    details = {
        "path": place.path,
        "step": str(step),
        "before": wanted.before and wanted.before.sha256,
        "after": wanted.after and wanted.after.sha256,
        "flags": wanted.flags,
    }
    await audit.record(
        tx, who, f"{place.noun}.set_step", place.noun, place.id, details, organization_id=place.organization_id
    )
    tx.wake("tree", place.id)
    return next(each for each in await store.of_place(tx, place.id) if each.step is step)


async def _hold(tx: Tx, place: InputPlace) -> None:
    """Lock a place, so that it is not deleted or moved meanwhile: what it adds is found by its path, which a new place may get."""
    if place.kind == "module":
        await modules.hold_at(tx, place.id, place.path)
        return
    await group_store.hold(tx, place.id)
    if await group_store.get(tx, place.id) is None:
        raise NotFound(f"group `{place.path or '/'}` has just been deleted")


async def remove(tx: Tx, who: Principal, place: InputPlace, step: Step) -> None:
    if not await store.remove(tx, place.id, step):
        raise NotFound(f"{place.noun} `{place.path or '/'}` adds nothing to {step}")
    details = {"path": place.path, "step": str(step)}
    await audit.record(
        tx, who, f"{place.noun}.clear_step", place.noun, place.id, details, organization_id=place.organization_id
    )
    tx.wake("tree", place.id)
