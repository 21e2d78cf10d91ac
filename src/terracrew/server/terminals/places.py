"""Finds the organization of something that is known by its id only: command lines name organizations in few of their requests."""

from terracrew import ids
from terracrew.errors import NotFound, TerracrewError
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import service as jobs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM
from terracrew.server.state import quarantine
from terracrew.server.terminals import names, store
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.modules import service as modules


async def organization_of(tx: Tx, reference: str) -> str | None:
    """Return the organization of a workspace, a run, an upload, a project or a state; None if there is none with this id."""
    try:
        return await _found(tx, reference)
    except TerracrewError:
        return None


async def _found(tx: Tx, reference: str) -> str:
    if reference.startswith(("run-", "job_")):
        return (await jobs.find(tx, SYSTEM, names.job_id(reference), Verb.JOB_READ)).organization_id
    if ids.is_id("grp", reference):
        return (await groups.find(tx, SYSTEM, reference)).organization_id
    if ids.is_id("cfv", reference) and (version := await store.version(tx, reference)) is not None:
        return version.organization_id
    module_id = reference
    if reference.startswith("sta_"):
        module_id = (await quarantine.find(tx, SYSTEM, reference.partition(".")[0], Verb.STATE_READ)).state.module_id
    elif ids.is_id("sup", reference) and (upload := await store.upload(tx, reference)) is not None:
        module_id = upload.module_id
    if not ids.is_id("mod", module_id):
        raise NotFound(f"there is nothing with the id {reference[:50]}")
    return (await modules.find(tx, SYSTEM, module_id, Verb.TREE_READ)).organization_id
