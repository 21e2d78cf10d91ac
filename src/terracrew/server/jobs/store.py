"""Rows of jobs; every write of a status is a compare-and-set."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import LiteralString, NamedTuple

from terracrew.api.jobs import Attempt, Job
from terracrew.errors import NotFound, Superseded
from terracrew.server.announcements import service as announcements
from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements import fragments
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, batch_assignments, values
from terracrew.server.db.topics import AttemptKey, FreedKey
from terracrew.server.figures import entries as figures
from terracrew.server.figures.entries import CountedChange
from terracrew.server.history import store as history_store
from terracrew.server.jobs import attempt_store, decide, news
from terracrew.server.jobs import metrics as counts
from terracrew.server.jobs.decide import Decision
from terracrew.server.jobs.decision_types import is_hold
from terracrew.server.jobs.plans import store as plan_store

JOBS = Table("jobs", Job)
_DECIDED_OF_JOB = (
    "status",
    "attempt",
    "losses",
    "message",
    "failure_kind",
    "retry",
    "queued_at",
    "claimed_at",
    "started_at",
    "finished_at",
    "runner_id",
    "instance_id",
    "cancel_mode",
    "source_digest",
    "source_description",
    "source_commit",
    "source_revision",
    "source_moved_from",
    "engine_version",
    "plan",
    "cost",
    "plan_attempt",
    "imports_chosen_by",
    "replanned_by",
)
"""The columns of a job that may change after it was created."""
_UNDECIDED_OF_JOB = {*_DECIDED_OF_JOB, "pinned_engine_version"} - {"status", "attempt", "queued_at"}
"""The columns that have their defaults in a new job."""
_NEW_OF_JOB: tuple[LiteralString, ...] = tuple(name for name in JOBS.fields if name not in _UNDECIDED_OF_JOB)
_INSERT_JOBS = JOBS.insert_batch(*_NEW_OF_JOB, "idempotency_key")
_INSERT_JOBS_TYPES = JOBS.types_of(*_NEW_OF_JOB, idempotency_key="text")
_SAVE_JOBS: LiteralString = f"""
UPDATE jobs SET {batch_assignments(*_DECIDED_OF_JOB)}
FROM batch WHERE jobs.id = batch.id AND jobs.status = batch.was AND jobs.attempt = batch.was_attempt
    AND coalesce(jobs.cancel_mode, '') = batch.was_cancel
RETURNING jobs.id"""
_SAVE_JOBS_TYPES = JOBS.types_of("id", *_DECIDED_OF_JOB, was="text", was_attempt="bigint", was_cancel="text")
_WITH_ATTEMPTS: LiteralString = f"{JOBS.columns}, {attempt_store.ATTEMPTS.prefixed('a_')}"
_OF_ATTEMPTS: LiteralString = """
FROM batch JOIN attempts ON attempts.job_id = batch.job_id AND attempts.number = batch.number
JOIN jobs ON jobs.id = attempts.job_id"""
_REPORTING: LiteralString = f"SELECT {_WITH_ATTEMPTS} {_OF_ATTEMPTS}"
_OWNED: LiteralString = f"SELECT {_WITH_ATTEMPTS}, attempts.state_key {_OF_ATTEMPTS}"
_ATTEMPT_KEY: Columns = {"job_id": "text", "number": "bigint"}
_PREFIXED = [(name, f"a_{name}") for name in attempt_store.ATTEMPTS.fields]


class Transition(NamedTuple):
    """A job before and after a decision."""

    before: Job
    after: Job


async def get(tx: Tx, job_id: str) -> Job:
    row = await tx.one("SELECT " + JOBS.columns + " FROM jobs WHERE id = :id", id=job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(Job, row)


async def get_many(tx: Tx, job_ids: Sequence[str]) -> list[Job]:
    rows = await tx.each_id("SELECT " + JOBS.columns + " FROM batch JOIN jobs ON jobs.id = batch.id", job_ids)
    return rows_to(Job, rows)


async def newest_change(tx: Tx, module_id: str) -> Job | None:
    """Return the newest job that changes a module as a whole, whatever its status is."""
    return await JOBS.one(
        tx,
        f"""FROM jobs WHERE module_id = :module_id AND type <> 'PLAN' AND NOT {fragments.is_partial("jobs")}
        ORDER BY id DESC LIMIT 1""",
        module_id=module_id,
    )


async def hold(tx: Tx, job_id: str, number: int) -> tuple[Job, Attempt] | None:
    """Return a job and one of its attempts, as they stay until the transaction ends; None where there is no such attempt.

    They are locked in the order in which the ingest writes them, which prevents deadlocks.
    """
    own = (
        "SELECT "
        + attempt_store.ATTEMPTS.columns
        + " FROM attempts WHERE job_id = :job_id AND number = :number FOR NO KEY UPDATE"
    )
    row = await tx.one(own, job_id=job_id, number=number)
    return None if row is None else (await hold_job(tx, job_id), row_to(Attempt, row))


async def hold_job(tx: Tx, job_id: str) -> Job:
    job = await hold_job_if_known(tx, job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    return job


async def hold_job_if_known(tx: Tx, job_id: str) -> Job | None:
    return await JOBS.one(tx, "FROM jobs WHERE id = :id FOR NO KEY UPDATE", id=job_id)


async def owned(tx: Tx, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[Job, Attempt, bytes]]:
    """Return attempts, their jobs, and the keys of their states as they are stored; one question, since every executor asks it."""
    rows = await tx.each(_OWNED, _ATTEMPT_KEY, sorted(set(attempts)))
    return {(row["id"], row["a_number"]): (*_with_attempt(row), bytes(row["state_key"])) for row in rows}


async def reporting(tx: Tx, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[Job, Attempt]]:
    """Return attempts and their jobs, by the ids of the jobs and the numbers of the attempts; every delivery asks for them."""
    rows = await tx.each(_REPORTING, _ATTEMPT_KEY, sorted(set(attempts)))
    return {(row["id"], row["a_number"]): _with_attempt(row) for row in rows}


def _with_attempt(row: Row) -> tuple[Job, Attempt]:
    return row_to(Job, row), row_to(Attempt, {name: row[prefixed] for name, prefixed in _PREFIXED})


async def find_created(tx: Tx, organization_id: str, created_by: str, idempotency_key: str) -> Job | None:
    """Return the job that this principal created with this key before."""
    return await JOBS.one(
        tx,
        """FROM jobs
        WHERE organization_id = :organization_id AND created_by = :created_by AND idempotency_key = :key""",
        organization_id=organization_id,
        created_by=created_by,
        key=idempotency_key,
    )


async def insert(tx: Tx, jobs: Sequence[tuple[Job, str | None]]) -> None:
    """Write new jobs by one statement, each with the idempotency key of its request. `wake_queue` tells the schedulers of them."""
    await tx.each(_INSERT_JOBS, _INSERT_JOBS_TYPES, [(*values(job, *_NEW_OF_JOB), key) for job, key in jobs])
    for job, _ in jobs:
        tx.wake("jobs", job.id)


async def insert_restored(tx: Tx, job: Job) -> None:
    """Write a job again that the database has lost, as it is now."""
    await tx.run(JOBS.insert(), **to_params(job))
    if figures.counts(None, job):
        await figures.append(tx, [CountedChange(None, job)])
    tx.wake("jobs", job.id)
    tx.wake("queue", job.id)


async def set_module_path(tx: Tx, job_id: str) -> None:
    """Write the path of its module into a job that became active without a claim, so that it counts below the caps of its groups."""
    sql = "UPDATE jobs SET module_path = (SELECT path FROM modules WHERE modules.id = jobs.module_id) WHERE id = :id"
    await tx.run(sql, id=job_id)


def wake_queue(tx: Tx, job_ids: Iterable[str]) -> None:
    """Wake the schedulers for jobs that this transaction has put into the queue."""
    for job_id in job_ids:
        tx.wake("queue", job_id)


async def save_transition(tx: Tx, before: Job, after: Job) -> None:
    """Write a decided job by compare-and-set, and wake everything that the change concerns."""
    await save_transitions(tx, [Transition(before, after)])


async def save_transitions(tx: Tx, transitions: Sequence[Transition], *, is_own_report: bool = False) -> None:
    """Write many jobs by one statement. `is_own_report` says that the attempts of the jobs reported the changes themselves."""
    rows = [
        (*values(after, "id", *_DECIDED_OF_JOB), before.status.value, before.attempt, before.cancel_mode or "")
        for before, after in transitions
    ]
    saved = {row["id"] for row in await tx.each(_SAVE_JOBS, _SAVE_JOBS_TYPES, rows)} if rows else set[str]()
    for before, after in transitions:
        if before.id not in saved:
            raise Superseded(
                f"job {before.number} has changed in the meantime: it was {before.status} in attempt {before.attempt}"
            )
        _wake(tx, before, after, is_own_report)
        tx.on_commit(partial(counts.job_moved, before, after))
    await _count(tx, transitions)
    if announced := [each for before, after in transitions if (each := news.of_transition(before, after)) is not None]:
        await announcements.announce(tx, *announced)


async def _count(tx: Tx, transitions: Sequence[Transition]) -> None:
    """Add the jobs that have ended or released a slot to the figures. They were saved by compare-and-set, so each counts once."""
    counted = [each for each in transitions if figures.counts(each.before, each.after)]
    failed = [
        (after.id, before.attempt) for before, after in counted if after.status == "FAILED" and not after.failure_kind
    ]
    steps = await attempt_store.failed_steps(tx, failed) if failed else {}
    await figures.append(
        tx, [CountedChange(before, after, steps.get((after.id, before.attempt))) for before, after in counted]
    )


def _wake(tx: Tx, before: Job, after: Job, is_own_report: bool) -> None:
    """Wake the pages, the scheduler and the hub. An attempt that reported a change need not be told to stop because of it."""
    tx.wake("jobs", after.id)
    if before.is_active and not after.is_active:
        tx.wake("freed", FreedKey(before.id, before.module_id, before.instance_id).encode())
    if (after.status == "QUEUED") != (before.status == "QUEUED"):
        tx.wake("queue", after.id)
    if is_own_report:
        return
    if before.is_active and (after.attempt != before.attempt or after.is_terminal):
        tx.wake("ended", AttemptKey(before.id, before.attempt).encode())
    if after.is_active and after.cancel_mode is not None:
        tx.wake("cancel", after.id)


async def move(tx: Tx, job: Job, attempt: Attempt, decision: Decision) -> None:
    """Save a decision. If the attempt has ended, the steps that it was running end as well."""
    await attempt_store.save_attempt(tx, attempt, decision.attempt)
    if attempt.begun_at is not None and job.plan is not None and decision.job.plan is None:
        await attempt_store.keep_plan(tx, job.id, attempt.number)
    if decision.plan is not None:
        await plan_store.save(tx, decision.plan)
    if decision.ends_doubt:
        await attempt_store.end_doubt(tx, job.module_id)
        await history_store.end_doubt(tx, job.module_id)
    if decide.returns_doubts(attempt, decision.attempt):
        await return_doubts(tx, job.module_id, attempt)
    if (announced := news.of_attempt(decision.job, attempt, decision.attempt)) is not None:
        await announcements.announce(tx, announced)
    if decision.attempt.ended_at is not None:
        await attempt_store.end_steps(tx, attempt)
    if decision.job != job:
        await save_transition(tx, job, decision.job)
    else:
        tx.wake("jobs", job.id)


async def return_doubts(tx: Tx, module_id: str, attempt: Attempt) -> None:
    """Put the attempts in doubt again whose doubts the `begin` of this one has ended. Its plan names them."""
    for plan in await plan_store.of_job(tx, attempt.job_id):
        if plan.applied_by == attempt.number and plan.doubts:
            await attempt_store.doubt_again(tx, [ref for ref in plan.doubts if not is_hold(ref)])
            holds = [ref.job_id for ref in plan.doubts if is_hold(ref)]
            await history_store.doubt_again(tx, module_id, holds)


async def set_priority(tx: Tx, job_id: str, priority: int) -> None:
    """Change the priority of a job that the transaction holds, and wake the scheduler, which orders its queue anew."""
    await tx.run("UPDATE jobs SET priority = :priority WHERE id = :id", priority=priority, id=job_id)
    tx.wake("queue", job_id)
    tx.wake("jobs", job_id)


async def delete(tx: Tx, job_id: str) -> None:
    """Delete the row of a job, which fails while anything refers to it."""
    await tx.run("DELETE FROM jobs WHERE id = :id", id=job_id)


async def prune_idempotency_keys(tx: Tx, before: float, count: int) -> int:
    """Forget the keys of jobs that were created before this time: their clients no longer repeat the requests."""
    return await tx.run(
        """UPDATE jobs SET idempotency_key = NULL WHERE idempotency_key IS NOT NULL AND id IN (
            SELECT id FROM jobs WHERE idempotency_key IS NOT NULL AND created_at < :before
            ORDER BY created_at LIMIT :count)""",
        before=before,
        count=count,
    )
