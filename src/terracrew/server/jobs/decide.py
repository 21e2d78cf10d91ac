"""What becomes of a job: pure functions from what is and what happened to what shall be.

Services load, call one of these, and save by compare-and-set; nothing else decides. None means that nothing changes.
"""

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from terracrew.errors import Forbidden
from terracrew.protocol.events import Result
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import MUTATING, STEPS_OF
from terracrew.server.jobs.model import Attempt, Job, JobStatus, plain

MAX_LOSSES = 5
CLOSED_FOR = timedelta(seconds=10)
SILENT_FOR = timedelta(seconds=60)


class Next(msgspec.Struct, frozen=True):
    """A job and its attempt as they shall be saved, together."""

    job: Job
    attempt: Attempt


class Module(msgspec.Struct, frozen=True):
    """What `begin` and a late state need to know of a module."""

    state_version: int
    has_quarantine: bool


class Heard(msgspec.Struct, frozen=True):
    """When the attempt's runner (while it names the attempt) or its executor was last heard, and whether both were seen to go."""

    last: datetime
    is_closed: bool


Refusal: TypeAlias = Literal["state_moved", "quarantine", "superseded", "canceled"]
_STRENGTH: dict[CancelMode | None, int] = {None: 0, "after_step": 1, "interrupt": 2, "kill": 3}


def is_current(job: Job, attempt: Attempt) -> bool:
    return job.is_active and job.attempt == attempt.number and attempt.ended_at is None


def start(job: Job, attempt: Attempt, now: datetime) -> Next | None:
    """The attempt's executor has been heard for the first time."""
    if not is_current(job, attempt) or job.status is not JobStatus.CLAIMED:
        return None
    return Next(job.to(JobStatus.PROCESSING, now, started_at=now), msgspec.structs.replace(attempt, started_at=now))


def begin(job: Job, attempt: Attempt, module: Module, state_version: int, now: datetime) -> Next | Refusal | None:
    """Leave to mutate (rule 4). None: it has that leave already, and is told so again."""
    if not is_current(job, attempt):
        return "superseded"
    if not MUTATING & set(STEPS_OF[job.type]):
        raise Forbidden(f"a {job.type} changes nothing, so there is no leave to ask for")
    if attempt.begun_at is not None:
        return None if attempt.begun_state_version == state_version else "state_moved"
    if job.cancel_mode is not None:
        return "canceled"
    if module.has_quarantine:
        return "quarantine"
    if state_version != module.state_version:
        return "state_moved"
    return Next(job, msgspec.structs.replace(attempt, begun_at=now, begun_state_version=state_version))


def finish(job: Job, attempt: Attempt, result: Result, now: datetime) -> Next | None:
    """The executor's own word on how it ended. Late or superseded, it is a note and nothing else (rules 2 and 5)."""
    if not is_current(job, attempt) or job.status is not JobStatus.PROCESSING:
        return None
    outcome = {"SUCCEEDED": "succeeded", "FAILED": "failed", "CANCELED": "canceled"}[result.status]
    return Next(
        job.to(JobStatus(result.status), now, message=plain(result.message)),
        msgspec.structs.replace(attempt.end(outcome, now, result.message), is_gone=True),  # pyright: ignore[reportArgumentType]
    )


def hand_back(job: Job, attempt: Attempt, reason: str, now: datetime) -> Next | None:
    """No process of it ever existed. After `begin` that cannot be true, and is not believed."""
    if not is_current(job, attempt) or attempt.begun_at is not None or attempt.started_at is not None:
        return None
    return _requeue(job, msgspec.structs.replace(attempt.end("handed_back", now, reason), is_gone=True), now)


def gone(job: Job, attempt: Attempt, reason: str, now: datetime) -> Next | None:
    """The runner that saw its process says that all of it is gone and delivered. So nothing of it can act any more."""
    if not is_current(job, attempt):
        return None
    return _requeue(job, msgspec.structs.replace(attempt.end("gone", now, reason), is_gone=True), now)


def missing(job: Job, attempt: Attempt, reason: str, now: datetime) -> Next | None:
    """A runner came back without an attempt that it was granted. Unknown is not dead: after `begin` nothing follows."""
    if not is_current(job, attempt) or attempt.begun_at is not None:
        return None
    return _requeue(job, attempt.end("lost", now, reason), now)


def lost(job: Job, attempt: Attempt, heard: Heard, now: datetime) -> Next | None:
    """Neither its runner nor its executor is heard. Before `begin` it is requeued; after it, the job waits, locked, and says so."""
    last = max(heard.last, attempt.heard_at or heard.last)
    if now - last <= (CLOSED_FOR if heard.is_closed else SILENT_FOR):
        return None
    return missing(job, attempt, "neither the runner nor the executor is heard any more", now)


def cancel(job: Job, mode: CancelMode, now: datetime, by: str) -> Job:
    """Nothing runs: it ends here. Something runs: that is asked to stop (a request, never a status set from outside)."""
    if not job.is_active:
        return job.to(JobStatus.CANCELED, now, message=f"canceled by {by}")
    return msgspec.structs.replace(job, cancel_mode=max(job.cancel_mode or mode, mode, key=_STRENGTH.__getitem__))


def adoption(job: Job, attempt: Attempt, *, is_newest: bool, is_same_lineage: bool, is_module_mutating: bool) -> bool:
    """Whether a state becomes the current one by itself; otherwise it goes into quarantine for a person to decide.

    What comes from an attempt that never had leave to mutate is nothing that an engine of ours can have written.
    """
    if attempt.begun_at is None:
        return False
    return is_current(job, attempt) or (is_newest and is_same_lineage and not is_module_mutating)


def _requeue(job: Job, attempt: Attempt, now: datetime) -> Next:
    if job.cancel_mode is not None:
        return Next(job.to(JobStatus.CANCELED, now, message="canceled; its attempt had ended"), attempt)
    losses = job.losses + (attempt.started_at is not None or attempt.outcome == "gone")
    if losses >= MAX_LOSSES:
        message = f"given up after {losses} lost attempts; the last one: {attempt.reason}"
        return Next(job.to(JobStatus.FAILED, now, message=message, losses=losses), attempt)
    return Next(job.to(JobStatus.QUEUED, now, losses=losses), attempt)
