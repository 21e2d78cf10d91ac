"""Decides what becomes of a job of the fleet: pure functions from its state and an event to its next state.

Services load, call one of these functions, and save by compare-and-set; nothing else decides. None means that nothing changes.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from terracrew.api.fleet_jobs import (
    MAX_TEXT_CHARACTERS,
    FleetJob,
    FleetJobStatus,
    FleetJobType,
    FleetOutcome,
    plain_text,
)
from terracrew.errors import Conflict

LEASE = timedelta(seconds=30)
"""A server that has not renewed its lease for this long has lost the job."""
MAX_ATTEMPTS = 5
FIRST_RETRY_SECONDS = 1.0
"""How long a job waits after its first lost attempt; twice as long after each further one."""
_S = FleetJobStatus


def is_owner(job: FleetJob, attempt: int, server_id: str) -> bool:
    """Return whether events of this attempt, which this server reports, may change anything."""
    return job.is_active and job.attempt == attempt and job.server_id == server_id


def claim(job: FleetJob, attempt: int, server_id: str, now: datetime, *, is_target_busy: bool) -> FleetJob | None:
    """Give a queued job to a server, unless another job of the same target runs."""
    if job.status is not _S.QUEUED or job.attempt != attempt or is_target_busy or job.due_at > now:
        return None
    return job.to(
        _S.CLAIMED,
        now,
        server_id=server_id,
        lease_until=now + LEASE,
        claimed_at=now,
        is_unwinding=job.canceled_at is not None,
    )


def refuse(job: FleetJob, attempt: int, error: str, now: datetime) -> FleetJob | None:
    """Fail a queued job that cannot be given to anybody, for example because its identity was deleted."""
    if job.status is not _S.QUEUED or job.attempt != attempt:
        return None
    return job.to(_S.FAILED, now, error=plain_text(error))


def begin(job: FleetJob, attempt: int, server_id: str, now: datetime) -> FleetJob | None:
    """Note that the fleet process has begun."""
    if not is_owner(job, attempt, server_id) or job.status is not _S.CLAIMED:
        return None
    return job.to(_S.PROCESSING, now, started_at=job.started_at or now)


def renew(job: FleetJob, attempt: int, server_id: str, now: datetime) -> FleetJob | None:
    """Extend the lease. A server that was silent for too long has it still, unless somebody has queued the job again."""
    if not is_owner(job, attempt, server_id):
        return None
    return replace(job, lease_until=now + LEASE)


def expire(job: FleetJob, now: datetime) -> FleetJob | None:
    """Queue a job again whose server has not renewed its lease."""
    if not job.is_active or job.lease_until is None or job.lease_until > now:
        return None
    return _lost(job, "the server that ran it was lost", now)


def lose(job: FleetJob, attempt: int, server_id: str, reason: str, now: datetime) -> FleetJob | None:
    """Queue a job again of which the fleet process has ended in the middle, or whose server stops."""
    return _lost(job, reason, now) if is_owner(job, attempt, server_id) else None


def finish(
    job: FleetJob, attempt: int, server_id: str, outcome: FleetOutcome, error: str, now: datetime
) -> FleetJob | None:
    """End a job with what its attempt reports. Terminal is terminal, and an attempt that was lost changes nothing."""
    if not is_owner(job, attempt, server_id):
        return None
    if job.status is _S.CLAIMED:
        job = job.to(_S.PROCESSING, now, started_at=job.started_at or now)
    error = plain_text(error)
    if outcome == "failed":
        return job.to(_S.FAILED, now, error=error or "it failed without saying why")
    if outcome == "canceled" and job.canceled_at is None:
        return job.to(
            _S.FAILED, now, error=error or "it stopped as if it had been canceled, but nobody has canceled it"
        )
    if outcome == "canceled" or job.is_unwinding:
        return job.to(_S.CANCELED, now, error=error or _canceled(job))
    return job.to(_S.SUCCEEDED, now)


def cancel(job: FleetJob, by: str, now: datetime) -> FleetJob | None:
    """Cancel a job that has not begun; ask one that runs to unwind. One that may have left something is queued to remove it."""
    if job.is_terminal:
        raise Conflict(f"job {job.number} has ended already: it is {job.status}", status=job.status)
    if job.canceled_at is not None:
        return None
    job = replace(job, canceled_at=now, canceled_by=by)
    if job.status is _S.QUEUED and not _leaves_something(job):
        return job.to(_S.CANCELED, now, error=_canceled(job))
    return job


def _lost(job: FleetJob, reason: str, now: datetime) -> FleetJob:
    losses = [*job.losses, reason]
    if len(losses) >= MAX_ATTEMPTS:
        history = "; ".join(f"{number}: {each}" for number, each in enumerate(losses, 1))
        words = f"it was given up after {len(losses)} attempts ({history})"
        return job.to(_S.FAILED, now, losses=losses, error=words[:MAX_TEXT_CHARACTERS])
    after = replace(job, losses=losses)
    if job.canceled_at is not None and not _leaves_something(after):
        return after.to(_S.CANCELED, now, error=_canceled(job))
    delay = timedelta(seconds=FIRST_RETRY_SECONDS * 2 ** (len(losses) - 1))
    return after.to(_S.QUEUED, now, attempt=job.attempt + 1, due_at=now + delay)


def _leaves_something(job: FleetJob) -> bool:
    """Return whether a job that is canceled now may have made something that another attempt has to remove."""
    return job.type is FleetJobType.DEPLOY_WORKER and bool(job.losses)


def _canceled(job: FleetJob) -> str:
    return f"{job.canceled_by} canceled it"
