"""Makes and ends references: inputs of a module that are outputs of another one."""

from terracrew import ids
from terracrew.api.inputs import OutputReference
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import store as groups
from terracrew.server.tree.inputs import reads, store
from terracrew.server.tree.inputs.model import InputPlace, SourceModule
from terracrew.server.tree.modules import service


async def checked(tx: Tx, who: Principal, at: InputPlace, wanted: OutputReference) -> SourceModule:
    """Return the module that a reference names, if the caller may read its outputs and it does not need the module at `at`.

    All references of an organization are made one after the other: each holds the row of the root group until it is
    committed. Otherwise two of them, each of which makes no cycle by itself, could make one together.
    """
    if at.kind != "module":
        raise Invalid("an output of another module can be an input of a module only, not of a group", field="output")
    unseen = NotFound(f"there is no module `{wanted.module[:300]}` here, or you may not see it")
    source = await service.find(tx, who, wanted.module, Verb.STATE_READ, unseen)
    if source.organization_id != at.organization_id:
        raise unseen
    root = await groups.at(tx, at.organization_id, "")
    if root is not None:
        await groups.hold(tx, root.id)
    if await reads.needs(tx, source.id, at.id):
        way = (
            "itself"
            if source.id == at.id
            else f"`{source.path}`, which needs an output of `{at.path}`, directly or not"
        )
        raise Conflict(f"`{at.path}` would need an output of {way}: a cycle could never be applied", module=source.path)
    return SourceModule(source.id, source.path)


async def end(tx: Tx, who: Principal, source_reference: str, input_id: str) -> None:
    """End the use of an output of a module by another one, for an owner of the module with the output.

    The input stays where it is, and the jobs that need it wait: without it, they could get another value of the same name from a
    group above, or the default of the configuration.
    """
    source = await service.find(tx, who, source_reference, Verb.TREE_WRITE)
    found = await store.reference(tx, source.id, ids.parse("inp", input_id))
    if found is None:
        raise NotFound(f"no other module has an input `{input_id[:100]}` that is an output of `{source.path}`")
    await store.end(tx, found.id, who.name)
    details = {"path": source.path, "output": found.source_output, "name": found.name, "used_by": found.place_id}
    await audit.record(
        tx, who, "module.end_reference", "module", source.id, details, organization_id=source.organization_id
    )
    tx.wake("tree", found.place_id)
    tx.wake("tree", source.id)
