"""Tells when an attempt was last in contact, with this server or, according to the database, with another one."""

from datetime import datetime, timedelta

from terracrew.api.jobs import Attempt
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Tx
from terracrew.server.history import store as history_store
from terracrew.server.jobs import attempt_store, decide, store
from terracrew.server.jobs.decision_types import Doubt, hold_ref


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
    now = store.moment(tx)
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
