"""Attempts that are not heard: since when, what is given up, and the modules that are in doubt because of them."""

from datetime import datetime, timedelta

from terracrew.errors import NotFound
from terracrew.protocol.messages import AttemptRef
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.hub.registry import Registry
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import decide, service, store
from terracrew.server.jobs.model import Attempt, Job


def heard(registry: Registry, attempt: Attempt, now: datetime) -> decide.Heard:
    """What is known of an attempt here and, by the database, on the other servers. After a gap, all count as heard for a while."""
    age = (now - (attempt.heard_at or attempt.claimed_at)).total_seconds()
    watched_for = registry.watched_for
    silence, is_closed = registry.silence(AttemptRef(attempt.job_id, attempt.number), attempt.instance_id, age)
    return decide.Heard(now - timedelta(seconds=silence), is_closed, is_grace=watched_for <= silence < age)


async def doubts(tx: Tx, registry: Registry, module_id: str) -> list[decide.Doubt]:
    """Why the module is in doubt, if it is."""
    now = store.moment(tx)
    return [
        decide.Doubt(
            fenced_at=attempt.ended_at or now,
            is_heard=not decide.is_silent(attempt, heard(registry, attempt, now), now),
        )
        for attempt in await store.doubtful(tx, module_id)
    ]


async def give_up(db: Database, registry: Registry, who: Principal, name: str, number: int) -> Job:
    """A person says that a lost attempt is gone: it is fenced, and its module in doubt until somebody has looked."""

    async def work(tx: Tx) -> Job:
        job_id = (await service.find(tx, who, name, Verb.JOB_CANCEL)).id
        found = await store.hold(tx, job_id, number)
        if found is None:
            raise NotFound(f"job {name} has no attempt {number}")
        job, attempt = found
        now = store.moment(tx)
        decision = decide.give_up(job, attempt, heard(registry, attempt, now), who.name, now)
        await store.move(tx, job, attempt, decision)
        await audit.record(tx, who, "job.give_up", "job", job.id, {"attempt": number})
        return decision.job

    return await db.write(work)
