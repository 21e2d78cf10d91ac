"""Starts what a schedule is for: a job, the run of a group, or drift checks. Everything else about the time is decided before."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from terracrew.api.group_runs import NewGroupRun
from terracrew.api.jobs import JobOrigin, NewJob
from terracrew.api.schedules import Schedule, StartedSchedule
from terracrew.errors import Conflict, NotFound, TerracrewError
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from terracrew.server.drift import service as drift
from terracrew.server.group_runs import service as group_runs
from terracrew.server.jobs import create
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places
from terracrew.wording import schedule_words


class Sources(msgspec.Struct, frozen=True):
    """What creating a job needs besides its request."""

    keys: Keyring
    roots: Sequence[Path]
    quotas: Quotas


async def start(
    tx: Tx, who: Principal, schedule: Schedule, sources: Sources, *, window_seconds: float = 0.0
) -> StartedSchedule:
    """Start what the schedule is for, with the permissions of `who`. Raises an error that says why nothing was started.

    No error is raised after something was written, so that the caller may go on with its transaction.
    """
    at = await _place(tx, who, schedule)
    if schedule.kind == "DRIFT":
        count = await drift.ask_for(
            tx,
            who,
            at,
            is_refresh_only=schedule.is_refresh_only,
            window_seconds=window_seconds,
            schedule=(schedule.id, schedule.name),
        )
        over = f", spread over {round(window_seconds / 60)} minutes" if window_seconds >= 60 and count > 1 else ""
        return StartedSchedule(f"asked for {count:,} drift {'check' if count == 1 else 'checks'}{over}")
    word = schedule_words.KINDS[schedule.kind].lower()
    if schedule.group_id is not None:
        run = await group_runs.begin(tx, who, schedule.group_id, NewGroupRun(schedule.kind))
        return StartedSchedule(f"began to {word} all modules", group_run_id=run.id)
    await _check_last(tx, schedule)
    origin = JobOrigin(kind="schedule", name=schedule.name, id=schedule.id)
    request = JobRequest(who, at.id, NewJob(JobType(schedule.kind)), origin=origin)
    [made] = await create.create_all(tx, [request], keys=sources.keys, roots=sources.roots, quotas=sources.quotas)
    if isinstance(made, TerracrewError):
        raise made
    return StartedSchedule(f"queued job #{made.job.number}: {word}", job_id=made.job.id)


async def _place(tx: Tx, who: Principal, schedule: Schedule) -> InputPlace:
    """Find the group or module of a schedule, where `who` must be allowed to run jobs."""
    reference = schedule.group_id or schedule.module_id or ""
    at = await places.find(tx, who, reference)
    if at.organization_id != schedule.organization_id:  # a deleted module is moved out of its organization
        raise NotFound("its group or module was deleted")
    await authorize.require(tx, who, Verb.JOB_RUN, drift.authorize_place(at))
    return at


async def _check_last(tx: Tx, schedule: Schedule) -> None:
    """Refuse to queue another job while the last one of the schedule has not ended, so that they do not pile up."""
    if schedule.last_job_id is None:
        return
    for job in await jobs.get_many(tx, [schedule.last_job_id]):
        if not job.is_terminal:
            raise Conflict(f"job #{job.number}, which it queued last time, is {job.status}", job_id=job.id)
