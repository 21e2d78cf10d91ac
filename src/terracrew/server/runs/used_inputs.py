"""What an attempt of a job was given: where each input came from, and whether a new job would be given another value."""

import msgspec

from terracrew.api.inputs import JobInput, JobInputs
from terracrew.api.jobs import Job
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import job_inputs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.inputs import effective
from terracrew.server.tree.inputs import reads as input_reads


async def of_job(tx: Tx, who: Principal, job: Job, attempt: int | None = None) -> JobInputs:
    """Return what an attempt was given: this one, or the last one that was given anything.

    A module whose output was an input is named only to those who may see it.
    """
    number, used = await job_inputs.used(tx, job.id, attempt)
    placed = (await input_reads.of_modules(tx, [job.module_id])).get(job.module_id, [])
    now = {each.input.id for each in effective.effective_inputs(placed)}
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    used = [
        each
        if each.source_module is None or seen.covers(authorize.module(job.organization_id, each.source_module))
        else msgspec.structs.replace(each, source_module=None, source_job_id=None)
        for each in used
    ]
    items = [JobInput(**msgspec.structs.asdict(each), is_current=not each.id or each.id in now) for each in used]
    return JobInputs(number, items)
