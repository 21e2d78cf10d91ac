"""Priorities of jobs: which ones a principal may choose, and the change of a job that waits."""

import msgspec

from terracrew.api.jobs import Job, JobChange, JobStatus
from terracrew.api.modules import Module
from terracrew.errors import Conflict, Forbidden
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import service, store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules import service as modules

MAX_OPERATOR_PRIORITY = 10
"""Everybody who may run a module's jobs may choose priorities up to this one, or up to the module's own if it is higher.

A higher priority delays the jobs of others, so it needs the permission to change the module.
"""
_WAITING = (JobStatus.QUEUED, JobStatus.AWAITING_APPROVAL)


async def max_priority(tx: Tx, who: Principal, module: Module) -> int | None:
    """Return the highest priority that the principal may give to jobs of a module; None if there is no limit."""
    seen = await authorize.visible(tx, who, Verb.TREE_WRITE)
    return None if seen.covers(modules.place(module)) else max(MAX_OPERATOR_PRIORITY, module.priority)


async def require(tx: Tx, who: Principal, module: Module, priority: int) -> None:
    """Raise an error unless the principal may give this priority to jobs of the module."""
    if priority <= max(MAX_OPERATOR_PRIORITY, module.priority):
        return
    highest = await max_priority(tx, who, module)
    if highest is not None:
        raise Forbidden(
            f"you may choose priorities up to {highest} for `{module.path}`: a higher one delays the jobs of others, "
            "so ask an owner of the module for it",
            max_priority=highest,
        )


async def change(db: Database, who: Principal, name: str, wanted: JobChange) -> Job:
    """Change the priority of a job that is queued or waits for an approval."""

    async def work(tx: Tx) -> Job:
        job = await store.hold_job(tx, (await service.find(tx, who, name, Verb.JOB_RUN)).id)
        if job.status not in _WAITING:
            raise Conflict(
                f"job {job.number} is {job.status}: only a job that waits has a priority that can be changed",
                status=job.status,
            )
        if wanted.priority == job.priority:
            return job
        if wanted.priority > job.priority:  # somebody with more rights may have raised it before
            await require(tx, who, await modules.find(tx, who, job.module_id, Verb.JOB_RUN), wanted.priority)
        await store.set_priority(tx, job.id, wanted.priority)
        details = {"job": job.number, "from": job.priority, "to": wanted.priority}
        await audit.record(tx, who, "job.change_priority", "job", job.id, details, organization_id=job.organization_id)
        return msgspec.structs.replace(job, priority=wanted.priority)

    return await db.write(work)
