"""Explains why a job waits, as a text and a code, with the page where a person can act."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from terracrew.api.job_views import Reason
from terracrew.api.jobs import Attempt, GivenApproval, Job, JobRetry, JobStatus
from terracrew.api.locks import ModuleLock
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import MUTATING, STEPS_OF
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.history import store as history_store
from terracrew.server.jobs import decide
from terracrew.server.jobs.attempts import lost_attempts
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.runs import reads
from terracrew.server.scheduling import explain
from terracrew.server.state import locks, quarantine
from terracrew.wording import lock_words

SILENT_AFTER_SECONDS = 20.0
"""A heartbeat comes every ten seconds. After two missing ones, the reason says that there is no contact."""
START_SECONDS = 2.0


class Watch(msgspec.Struct, frozen=True):
    """The context that is not in the database: this server's connections, the lease, and the reader."""

    registry: Registry
    lease: timedelta
    reader: Principal | None = None
    """The principal that reads the reason, which names nothing that they may not see. None for the server itself."""
    precedence: Precedence = "online"

    def for_reader(self, reader: Principal) -> "Watch":
        return msgspec.structs.replace(self, reader=reader)


async def why(tx: Tx, job: Job, watch: Watch) -> Reason | None:
    """Return the first reason why the job does not proceed; None if there is none."""
    return (await _why_each(tx, [job], watch, with_turn=True)).get(job.id)


async def why_each(tx: Tx, jobs: Sequence[Job], watch: Watch) -> dict[str, Reason]:
    """Return the reasons of many jobs by their ids. The number of statements does not depend on the number of jobs.

    Unlike `why`, the reason of a job that waits for its turn does not say how many jobs are ahead of it.
    """
    return await _why_each(tx, jobs, watch, with_turn=False)


async def _why_each(tx: Tx, jobs: Sequence[Job], watch: Watch, *, with_turn: bool) -> dict[str, Reason]:
    found = await _undecided(tx, [job for job in jobs if job.status is JobStatus.AWAITING_APPROVAL])
    found |= await _held_up(tx, [job for job in jobs if job.is_active], watch)
    queued = [job for job in jobs if job.status is JobStatus.QUEUED]
    found |= await _dependencies(tx, queued, watch)
    found |= await _busy(tx, queued)
    found |= await _locked(tx, queued)
    found |= await _quarantine(tx, queued)  # this reason takes precedence over a busy module
    found |= await _held(tx, queued)
    free = [job for job in queued if job.id not in found]
    return found | await explain.why_each(tx, free, watch.registry, watch.reader, watch.precedence, with_turn=with_turn)


async def _dependencies(tx: Tx, queued: Sequence[Job], watch: Watch) -> dict[str, Reason]:
    """Explain the wait for outputs of other modules. A module that the reader may not see is not named."""
    rows = await reads.missing_dependencies(tx, _with_modules(queued))
    seen = await authorize.visible(tx, watch.reader, Verb.TREE_READ) if rows and watch.reader is not None else None
    found: dict[str, Reason] = {}
    for row in rows:
        is_seen = seen is None or seen.covers(authorize.module(row["organization_id"], row["path"]))
        module = f"module {row['path']}" if is_seen else "a module that you may not see"
        text = f"its input {row['name']} is the output {row['source_output']} of {module}, {_without_output(row)}"
        link = f"/dashboard/modules/{row['source_id']}" if is_seen else ""
        found.setdefault(row["waiting"], Reason("dependency", text, link))
    return found


def _without_output(row: Row) -> str:
    """Say why a job does not get an output, and what to do."""
    if not row["is_ended"] and row["has_older_outputs"]:
        return "and its outputs are those of an older job: apply it again"
    if not row["is_ended"]:
        return "which has no outputs yet: apply that first"
    if row["ended_by_name"]:
        why = f"and {row['ended_by_name']} has ended this use of it"
    else:
        why = f"and {row['set_by_name']}, who set the input, may not read the state of that module any more"
    return f"{why}: somebody who may read it has to set the input again, or the input has to be removed"


async def _busy(tx: Tx, queued: Sequence[Job]) -> dict[str, Reason]:
    rows = await attempt_reads.lock_holders(tx, _with_modules(queued))
    return {row["waiting"]: _busy_with(row) for row in rows}


def _busy_with(row: Row) -> Reason:
    holder, link = f"the module is busy with job #{row['number']}", _page(row["id"])
    if row["lost_at"] is None:
        return Reason("module_busy", holder, link, since=_moment(row["claimed_at"]))
    text = f"{holder}, which is lost in the middle of a change and still holds the lock"
    return Reason("module_busy", text, f"{link}#lost", since=_moment(row["lost_at"]))


async def _locked(tx: Tx, queued: Sequence[Job]) -> dict[str, Reason]:
    """Explain the wait for a person who holds the lock of the module."""
    rows = await locks.of_waiting(tx, _with_modules(queued))
    return {row["waiting"]: _locked_by(row_to(ModuleLock, row)) for row in rows}


def _locked_by(lock: ModuleLock) -> Reason:
    who = lock_words.holder(lock.holder_kind, lock.holder_name, lock.credential)
    text = f"the module is locked by {who}" + (f": {lock.reason}" if lock.reason else "")
    return Reason("locked", text, f"/dashboard/modules/{lock.module_id}#lock", since=lock.created_at)


async def _quarantine(tx: Tx, queued: Sequence[Job]) -> dict[str, Reason]:
    rows = await reads.oldest_quarantined_states(tx, _with_modules(queued))
    return {row["waiting"]: _quarantined(row) for row in rows}


async def _held(tx: Tx, queued: Sequence[Job]) -> dict[str, Reason]:
    """Explain the wait of changes since the database was set back."""
    changing = [job for job in queued if MUTATING & set(STEPS_OF.get(job.type, ()))]
    hold = await history_store.open_hold(tx) if changing else None
    if hold is None:
        return {}
    text = (
        "the server is held, because its database was or may have been set back: "
        "it hands out no change of this module until an administrator releases it"
    )
    reason = Reason("held", text, "/dashboard/hold", since=hold.started_at)
    held = await history_store.held_among(tx, hold.id, {job.module_id for job in changing})
    return {job.id: reason for job in changing if job.module_id in held}


def _quarantined(row: Row) -> Reason:
    if row["number"] is None:
        what = "a state that a person wrote at a terminal, after their lock had been removed by force,"
    else:
        what = f"a state that attempt {row['attempt']} of job #{row['number']} wrote"
    if why := quarantine.obstacle(row["problem"], row["backend"]):
        text = f"{what} cannot be adopted, and has to be discarded: {why}"
    else:
        text = f"{what} came too late to be taken over by itself: adopt it or discard it"
    return Reason("quarantine", text, f"{_page(row['waiting'])}#quarantine", since=_moment(row["created_at"]))


async def _undecided(tx: Tx, waiting: Sequence[Job]) -> dict[str, Reason]:
    rows = await reads.plans_awaiting_approval(tx, [job.id for job in _sorted(waiting)])
    return {row["job_id"]: _undecided_about(row) for row in rows}


def _undecided_about(row: Row) -> Reason:
    text = f"its plan waits for approval: {row['why']}" if row["why"] else "its plan waits for approval"
    if approvals := msgspec.json.decode(row["approvals"], type=list[GivenApproval]):
        text += f"; {', '.join(each.by for each in approvals)} approved it"
    if row["is_stale"]:
        text = "the state has changed since its plan was made: let it plan again, or cancel it"
    elif row["is_in_doubt"]:
        text = (
            "an earlier change of this module was cut short, and what it made may be in no state: "
            "look at what is known of it, then approve or decline this plan"
        )
    elif row["is_set_back"]:
        text = (
            "the server's database was or may have been set back, so this module may have been changed since: "
            "compare its plan with what exists, then approve or decline it"
        )
    return Reason(
        "in_doubt" if row["is_in_doubt"] or row["is_set_back"] else "approval",
        text,
        f"{_page(row['job_id'])}#approval",
        since=_moment(row["made_at"]),
        until=_moment(row["decide_by"]),
    )


async def _held_up(tx: Tx, active: Sequence[Job], watch: Watch) -> dict[str, Reason]:
    """Return the reasons of jobs that have an attempt: it is lost, silent, not permitted to begin, or slow to start."""
    rows = await attempt_reads.progress(tx, [(job.id, job.attempt) for job in _sorted(active)])
    attempts = {row["job_id"]: row for row in rows}
    beginning = [job for job in active if MUTATING & set(STEPS_OF.get(job.type, ()))]
    fenced = await _waiting_for_fenced(
        tx, [job for job in beginning if job.id in attempts and attempts[job.id]["begun_at"] is None], watch.registry
    )
    found: dict[str, Reason] = {}
    for job in active:
        row = attempts.get(job.id)
        if row is not None and (reason := _slow(tx.now, job, row, watch, fenced.get(job.id))) is not None:
            found[job.id] = reason
    return found


def _slow(now: float, job: Job, row: Row, watch: Watch, fenced: Reason | None) -> Reason | None:
    if row["lost_at"] is not None:
        return _lost(job, row, watch.lease)
    ref = AttemptRef(job.id, job.attempt)
    age = now - row["heard_at"]
    silence, is_closed = watch.registry.silence(ref, row["instance_id"], age)
    if silence >= (decide.CLOSED_FOR.total_seconds() if is_closed else SILENT_AFTER_SECONDS):
        counts = row["begun_at"] is not None or row["may_have_begun"]
        then = "it counts as lost if this continues" if counts else "it is queued again if this continues"
        text = f"there is no contact with its runner or its executor; {then}"
        return Reason("silent", text, _page(job.id), since=_moment(now - silence))
    if (
        age >= SILENT_AFTER_SECONDS
        and ref not in watch.registry.executors
        and silence >= watch.registry.watched_for - 1
    ):
        left = decide.SILENT_FOR.total_seconds() - watch.registry.watched_for
        text = "the server has just started or was unreachable: the runner of this job has a minute to reconnect"
        return Reason("settling", text, since=_moment(row["heard_at"]), until=_moment(now + max(0.0, left)))
    if _is_executor_silent(now, ref, row, watch.registry):
        text = "there is no contact with its executor, and its runner has not reported its end: it may still run"
        return Reason("silent", text, _page(job.id), since=_moment(row["executor_heard_at"]))
    if fenced is not None:
        return fenced
    if job.retry is not None and job.status is JobStatus.PROCESSING:
        return _retrying(job.retry, now)
    if job.status is JobStatus.CLAIMED and (row["reason"] or now - row["claimed_at"] > START_SECONDS):
        text = "a runner has it and is starting it" + (f": {row['reason']}" if row["reason"] else "")
        return Reason("starting", text, since=_moment(row["claimed_at"]))
    return None


def _is_executor_silent(now: float, ref: AttemptRef, row: Row, registry: Registry) -> bool:
    """Return whether no server hears an executor, although its runner is in contact: its node may be gone, or its network."""
    if row["executor_heard_at"] is None or ref in registry.executors:
        return False
    return min(now - float(row["executor_heard_at"]), registry.watched_for) >= SILENT_AFTER_SECONDS


def _retrying(retry: JobRetry, now: float) -> Reason:
    is_waiting = retry.at.timestamp() > now
    text = f"{'waiting for' if is_waiting else 'this is'} try {retry.number} of {retry.tries} of {retry.step}"
    text += f", because the last one failed: {retry.reason}"
    return Reason("retry", text, until=retry.at if is_waiting else None)


def _lost(job: Job, row: Row, lease: timedelta) -> Reason:
    then = "is canceled, as requested" if job.cancel_mode else "is queued again and needs an approval"
    text = (
        "contact with its runner was lost during a change. If the runner reconnects, the job continues. "
        f"Otherwise the job {then}"
    )
    since = _moment(row["lost_at"])
    return Reason("lost", text, f"{_page(job.id)}#lost", since=since, until=since + lease)


async def _waiting_for_fenced(tx: Tx, beginning: Sequence[Job], registry: Registry) -> dict[str, Reason]:
    """Explain the wait for an attempt that was given up, is not known to be gone, and is in contact again."""
    rows = await attempt_reads.in_doubt_for_each(tx, _with_modules(beginning))
    found: dict[str, Reason] = {}
    for row in rows:
        attempt = row_to(Attempt, row)
        if not attempt.is_gone and lost_attempts.is_in_contact(registry, attempt, tx.moment):
            which = f"attempt {attempt.number} of job #{row['job_number']}"
            text = f"{which}, which was given up, is in contact again: nothing begins before it is gone"
            found.setdefault(row["waiting"], Reason("in_doubt", text, _page(attempt.job_id)))
    return found


def _sorted(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: job.id)


def _with_modules(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    return [(job.id, job.module_id) for job in _sorted(jobs)]


def _page(job_id: str) -> str:
    return f"/dashboard/jobs/{job_id}"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
