"""Attempts without contact: when each was last in contact, with this server or another one, and how a person gives one up."""

from datetime import datetime, timedelta

from terracrew.api.jobs import Attempt, Job
from terracrew.errors import NotFound
from terracrew.protocol.messages import AttemptRef
from terracrew.server.audit import service as audit
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store as history_store
from terracrew.server.jobs import attempt_store, decide, service, store
from terracrew.server.jobs.decision_types import Doubt, hold_ref
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


def last_contact(registry: Registry, attempt: Attempt, now: datetime) -> decide.LastContact:
    """Return the last contact with an attempt. After a gap, every attempt counts as in contact for a while."""
    age = (now - (attempt.heard_at or attempt.claimed_at)).total_seconds()
    watched_for = registry.watched_for
    silence, is_closed = registry.silence(AttemptRef(attempt.job_id, attempt.number), attempt.instance_id, age)
    return decide.LastContact(now - timedelta(seconds=silence), is_closed, is_grace=watched_for <= silence < age)


def is_in_contact(registry: Registry, attempt: Attempt, now: datetime) -> bool:
    return not decide.is_silent(attempt, last_contact(registry, attempt, now), now)


async def doubts(tx: Tx, registry: Registry, module_id: str) -> list[Doubt]:
    """Return the doubts about the module, if any: attempts, and holds of a database that was set back."""
    now = tx.moment
    found = [
        Doubt(
            AttemptRef(attempt.job_id, attempt.number),
            attempt.ended_at or now,
            is_in_contact=not attempt.is_gone and is_in_contact(registry, attempt, now),
        )
        for attempt in await attempt_store.doubtful(tx, module_id)
    ]
    holds = await history_store.doubtful(tx, module_id)
    return found + [Doubt(hold_ref(hold.id), hold.started_at, is_in_contact=False) for hold in holds]


async def give_up(db: Database, registry: Registry, who: Principal, name: str, number: int) -> Job:
    """Fence a lost attempt that a person declares gone. Its module is in doubt until a plan is approved."""

    async def work(tx: Tx) -> Job:
        job_id = (await service.find(tx, who, name, Verb.JOB_CANCEL)).id
        found = await store.hold(tx, job_id, number)
        if found is None:
            raise NotFound(f"job {name} has no attempt {number}")
        job, attempt = found
        now = tx.moment
        decision = decide.give_up(job, attempt, last_contact(registry, attempt, now), who.name, now)
        await store.move(tx, job, attempt, decision)
        details = {"job": job.number, "attempt": number}
        await audit.record(tx, who, "job.give_up", "job", job.id, details, organization_id=job.organization_id)
        return decision.job

    return await db.write(work)
