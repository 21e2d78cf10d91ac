"""Why a job waits, in words and as a code, with the page that mends it."""

from datetime import UTC, datetime, timedelta

import msgspec

from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import MUTATING, STEPS_OF
from terracrew.server.context import Server
from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Row, Tx
from terracrew.server.hub.registry import Registry
from terracrew.server.jobs import decide, hearing, placement, store
from terracrew.server.jobs.model import Attempt, Job, JobStatus, Reason

UNHEARD = 20.0
"""A heartbeat comes every ten seconds: after two that did not, it is said."""
STARTS_WITHIN = 2.0


class Watch(msgspec.Struct, frozen=True):
    """What is not in the database: who is heard by this server, and how long a lost attempt is waited for."""

    registry: Registry
    lease: timedelta


def watch(server: Server) -> Watch:
    return Watch(server.registry, timedelta(seconds=server.settings.apply_lease_seconds))


async def why(tx: Tx, job: Job, watch: Watch) -> Reason | None:
    """The first thing that stands in the way; None if nothing does."""
    if job.status is JobStatus.AWAITING_APPROVAL:
        return await _undecided(tx, job)
    if job.is_active:
        return await _held_up(tx, job, watch)
    if job.status is JobStatus.QUEUED:
        return await _quarantine(tx, job) or await _busy(tx, job) or await placement.why(tx, job, watch.registry)
    return None


async def _busy(tx: Tx, job: Job) -> Reason | None:
    row = await tx.one(
        """SELECT jobs.id, jobs.number, attempts.claimed_at, attempts.lost_at
        FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
        WHERE jobs.module_id = :module_id AND jobs.status IN ('CLAIMED', 'PROCESSING')""",
        module_id=job.module_id,
    )
    if row is None:
        return None
    holder, link = f"the module is busy with job #{row['number']}", _page(row["id"])
    if row["lost_at"] is None:
        return Reason("module_busy", holder, link, since=_moment(row["claimed_at"]))
    text = f"{holder}, which is lost in the middle of a change and still holds the lock"
    return Reason("module_busy", text, f"{link}#lost", since=_moment(row["lost_at"]))


async def _quarantine(tx: Tx, job: Job) -> Reason | None:
    row = await tx.one(
        """SELECT jobs.id, jobs.number, states.attempt, states.created_at FROM states JOIN jobs ON jobs.id = states.job_id
        WHERE states.module_id = :module_id AND states.status = 'quarantined' ORDER BY states.id LIMIT 1""",
        module_id=job.module_id,
    )
    if row is None:
        return None
    text = (
        f"a state that attempt {row['attempt']} of job #{row['number']} wrote came too late to be taken over by itself: "
        "adopt it or discard it"
    )
    return Reason("quarantine", text, f"{_page(job.id)}#quarantine", since=_moment(row["created_at"]))


async def _undecided(tx: Tx, job: Job) -> Reason:
    row = await tx.one(
        """SELECT plans.made_at, plans.decide_by, plans.state_version <> (
            SELECT state_version FROM modules WHERE id = :module_id) AS is_stale, EXISTS (
            SELECT 1 FROM attempts JOIN jobs ON jobs.id = attempts.job_id
            WHERE jobs.module_id = :module_id AND attempts.is_in_doubt) AS is_in_doubt
        FROM plans WHERE plans.job_id = :job_id AND plans.attempt = :attempt""",
        module_id=job.module_id, job_id=job.id, attempt=job.plan_attempt,
    )  # fmt: skip
    assert row is not None
    text = "its plan waits for a person to approve or decline it"
    if row["is_stale"]:
        text = "the state has changed since its plan was made: let it plan again, or cancel it"
    elif row["is_in_doubt"]:
        text = (
            "an earlier change of this module was cut short, and what it made may be in no state: "
            "look at what is known of it, then approve or decline this plan"
        )
    return Reason(
        "in_doubt" if row["is_in_doubt"] else "approval", text, f"{_page(job.id)}#approval",
        since=_moment(row["made_at"]), until=_moment(row["decide_by"]),
    )  # fmt: skip


async def _held_up(tx: Tx, job: Job, watch: Watch) -> Reason | None:
    """An attempt has the job: is it lost, silent, kept from beginning, or slow to start?"""
    row = await tx.one(
        """SELECT instance_id, claimed_at, begun_at, lost_at, coalesce(heard_at, claimed_at) AS heard_at
        FROM attempts WHERE job_id = :id AND number = :attempt""",
        id=job.id, attempt=job.attempt,
    )  # fmt: skip
    if row is None:
        return None
    if row["lost_at"] is not None:
        return _lost(job, row, watch.lease)
    ref = AttemptRef(job.id, job.attempt)
    age = tx.now - row["heard_at"]
    silence, is_closed = watch.registry.silence(ref, row["instance_id"], age)
    if silence >= (decide.CLOSED_FOR.total_seconds() if is_closed else UNHEARD):
        then = "it counts as lost if that goes on" if row["begun_at"] else "it is queued again if that goes on"
        text = f"neither its runner nor its executor is heard; {then}"
        return Reason("silent", text, _page(job.id), since=_moment(tx.now - silence))
    if age >= UNHEARD and ref not in watch.registry.executors and silence >= watch.registry.watched_for - 1:
        left = decide.SILENT_FOR.total_seconds() - watch.registry.watched_for
        text = "the server has just started, or could not listen for a while: whoever has this job has a minute to be heard"
        return Reason("settling", text, since=_moment(row["heard_at"]), until=_moment(tx.now + max(0.0, left)))
    may_begin = row["begun_at"] is None and MUTATING & set(STEPS_OF.get(job.type, ()))
    if may_begin and (fenced := await _heard_again(tx, job, watch.registry)):
        return fenced
    if job.status is JobStatus.CLAIMED and tx.now - row["claimed_at"] > STARTS_WITHIN:
        return Reason("starting", "a runner has it and is starting it", since=_moment(row["claimed_at"]))
    return None


def _lost(job: Job, row: Row, lease: timedelta) -> Reason:
    then = (
        "is canceled, as it was asked to be" if job.cancel_mode else "is queued again, and a person has to look first"
    )
    text = (
        "neither its runner nor its executor is heard, in the middle of a change. It goes on if it comes back; "
        f"if you know that it is gone, say so. Given up, it {then}"
    )
    since = _moment(row["lost_at"])
    return Reason("lost", text, f"{_page(job.id)}#lost", since=since, until=since + lease)


async def _heard_again(tx: Tx, job: Job, registry: Registry) -> Reason | None:
    """It was given up, nobody knows that it is gone, and now it is heard: nothing may begin beside it."""
    rows = await tx.all(
        "SELECT jobs.number AS job_number, " + store.ATTEMPT + """ FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE jobs.module_id = :module_id AND attempts.is_in_doubt""",
        module_id=job.module_id,
    )  # fmt: skip
    for row in rows:
        attempt = row_to(Attempt, row)
        if not attempt.is_gone and hearing.is_heard(registry, attempt, store.moment(tx)):
            which = f"attempt {attempt.number} of job #{row['job_number']}"
            return Reason(
                "in_doubt",
                f"{which}, which was given up, is heard: nothing begins before it is gone",
                _page(attempt.job_id),
            )
    return None


def _page(job_id: str) -> str:
    return f"/dashboard/jobs/{job_id}"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
