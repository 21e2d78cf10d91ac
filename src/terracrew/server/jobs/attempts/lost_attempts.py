"""Lets a person give up an attempt that was lost in the middle of a change."""

from terracrew.api.jobs import Job
from terracrew.errors import NotFound
from terracrew.server.audit import service as audit
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import decide, service, store
from terracrew.server.jobs.attempts import contact
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


async def give_up(db: Database, registry: Registry, who: Principal, name: str, number: int) -> Job:
    """Fence a lost attempt that a person declares gone. Its module is in doubt until a plan is approved."""

    async def work(tx: Tx) -> Job:
        job_id = (await service.find(tx, who, name, Verb.JOB_CANCEL)).id
        found = await store.hold(tx, job_id, number)
        if found is None:
            raise NotFound(f"job {name} has no attempt {number}")
        job, attempt = found
        now = store.moment(tx)
        decision = decide.give_up(job, attempt, contact.last_contact(registry, attempt, now), who.name, now)
        await store.move(tx, job, attempt, decision)
        details = {"job": job.number, "attempt": number}
        await audit.record(tx, who, "job.give_up", "job", job.id, details, organization_id=job.organization_id)
        return decision.job

    return await db.write(work)
