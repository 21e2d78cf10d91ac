"""Rows of jobs, attempts, steps and notes; every write of a status is a compare-and-set."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import LiteralString, NamedTuple

from terracrew.errors import NotFound, Superseded
from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments, batch_assignments, values
from terracrew.server.jobs import metrics as counts
from terracrew.server.jobs.decide import Decision
from terracrew.server.jobs.model import Attempt, Job, Note, StepRow
from terracrew.server.jobs.plans import store as plan_store

JOBS = Table("jobs", Job)
ATTEMPTS = Table("attempts", Attempt)
STEPS = Table("steps", StepRow)
NOTES = Table("notes", Note)
_INSERT_JOBS = JOBS.insert_batch(*JOBS.fields, "idempotency_key")
_INSERT_JOBS_TYPES = JOBS.types_of(*JOBS.fields, idempotency_key="text")
_DECIDED_OF_JOB = (
    "status",
    "attempt",
    "losses",
    "message",
    "queued_at",
    "claimed_at",
    "started_at",
    "finished_at",
    "runner_id",
    "instance_id",
    "cancel_mode",
    "source_digest",
    "source_description",
    "engine_version",
    "plan",
    "plan_attempt",
)
"""The columns of a job that may change after it was created."""
_SAVE_JOBS: LiteralString = f"""
UPDATE jobs SET {batch_assignments(*_DECIDED_OF_JOB)}
FROM batch WHERE jobs.id = batch.id AND jobs.status = batch.was AND jobs.attempt = batch.was_attempt
    AND coalesce(jobs.cancel_mode, '') = batch.was_cancel
RETURNING jobs.id"""
_SAVE_JOBS_TYPES = JOBS.types_of("id", *_DECIDED_OF_JOB, was="text", was_attempt="bigint", was_cancel="text")
_DECIDED_OF_ATTEMPT = (
    "started_at",
    "begun_at",
    "begun_state_version",
    "ended_at",
    "outcome",
    "reason",
    "is_gone",
    "lost_at",
    "is_in_doubt",
    "has_result",
)
"""The columns of an attempt that a decision may change; the others belong to its claim and to the ingest."""
_REPORTED_OF_ATTEMPT = (
    "job_id",
    "number",
    "mark",
    "lines",
    "started_at",
    "ended_at",
    "outcome",
    "reason",
    "is_gone",
    "is_in_doubt",
    "is_change_ended",
    "has_result",
    "has_unreadable_state",
)
# A person may have declared the attempt gone, or have ended its doubt, while it was delivering: neither is taken back.
_SAVE_PROGRESS: LiteralString = """
UPDATE attempts SET mark = batch.mark, lines = batch.lines, started_at = batch.started_at, ended_at = batch.ended_at,
    outcome = batch.outcome, reason = batch.reason, is_gone = attempts.is_gone OR batch.is_gone,
    is_in_doubt = CASE WHEN attempts.ended_at IS NULL THEN batch.is_in_doubt ELSE attempts.is_in_doubt AND batch.is_in_doubt END,
    is_change_ended = batch.is_change_ended, has_result = batch.has_result,
    has_unreadable_state = batch.has_unreadable_state, has_log_chunks = true
FROM batch WHERE attempts.job_id = batch.job_id AND attempts.number = batch.number AND attempts.mark = batch.was
    AND coalesce(attempts.outcome, '') = batch.was_outcome
RETURNING attempts.job_id"""
_SAVE_PROGRESS_TYPES = ATTEMPTS.types_of(*_REPORTED_OF_ATTEMPT, was="bigint", was_outcome="text")
_SAVE_STEPS: LiteralString = (
    STEPS.insert_batch("job_id", *STEPS.fields)
    + """ ON CONFLICT (job_id, attempt, name) DO UPDATE SET status = excluded.status, exit_code = excluded.exit_code,
    started_at = coalesce(steps.started_at, excluded.started_at), finished_at = excluded.finished_at"""
)
_SAVE_STEPS_TYPES: Columns = {"job_id": "text", **STEPS.types}
_OWNED: LiteralString = f"""
SELECT {JOBS.columns}, {ATTEMPTS.prefixed("a_")}, attempts.state_key
FROM attempts JOIN jobs ON jobs.id = attempts.job_id
WHERE attempts.job_id = :job_id AND attempts.number = :number"""


class Transition(NamedTuple):
    """A job before and after a decision."""

    before: Job
    after: Job


class SavedStep(NamedTuple):
    """A row of `steps` in the order of `_SAVE_STEPS_TYPES`. Its times come from the clock of another machine, as they are."""

    job_id: str
    name: str
    status: str
    started_at: float | None
    finished_at: float | None
    exit_code: int | None
    attempt: int


def moment(tx: Tx) -> datetime:
    return datetime.fromtimestamp(tx.now, UTC)


async def get(tx: Tx, job_id: str) -> Job:
    row = await tx.one("SELECT " + JOBS.columns + " FROM jobs WHERE id = :id", id=job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(Job, row)


async def get_many(tx: Tx, job_ids: Sequence[str]) -> list[Job]:
    rows = await tx.each(
        "SELECT " + JOBS.columns + " FROM batch JOIN jobs ON jobs.id = batch.id",
        {"id": "text"},
        [(each,) for each in job_ids],
    )
    return rows_to(Job, rows)


async def get_attempt(tx: Tx, job_id: str, number: int) -> Attempt | None:
    row = await tx.one(
        "SELECT " + ATTEMPTS.columns + " FROM attempts WHERE job_id = :job_id AND number = :number",
        job_id=job_id,
        number=number,
    )
    return None if row is None else row_to(Attempt, row)


async def get_attempts(tx: Tx, refs: Sequence[tuple[str, int]]) -> list[Attempt]:
    """Read many attempts by the ids of their jobs and their numbers."""
    rows = await tx.each(
        "SELECT "
        + ATTEMPTS.columns
        + " FROM attempts JOIN batch ON batch.job_id = attempts.job_id AND batch.number = attempts.number",
        ATTEMPTS.types_of("job_id", "number"),
        refs,
    )
    return rows_to(Attempt, rows)


async def hold(tx: Tx, job_id: str, number: int) -> tuple[Job, Attempt] | None:
    """Return a job and one of its attempts, as they stay until the transaction ends; None where there is no such attempt.

    They are locked in the order in which the ingest writes them, which prevents deadlocks.
    """
    own = "SELECT " + ATTEMPTS.columns + " FROM attempts WHERE job_id = :job_id AND number = :number FOR NO KEY UPDATE"
    row = await tx.one(own, job_id=job_id, number=number)
    return None if row is None else (await hold_job(tx, job_id), row_to(Attempt, row))


async def hold_job(tx: Tx, job_id: str) -> Job:
    row = await tx.one("SELECT " + JOBS.columns + " FROM jobs WHERE id = :id FOR NO KEY UPDATE", id=job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(Job, row)


async def owned(tx: Tx, job_id: str, number: int) -> tuple[Job, Attempt, bytes] | None:
    """Return an attempt, its job, and the key of its states as it is stored; one question, since every executor asks it."""
    row = await tx.one(_OWNED, job_id=job_id, number=number)
    if row is None:
        return None
    own = {name[2:]: value for name, value in row.items() if name.startswith("a_")}
    return row_to(Job, row), row_to(Attempt, own), bytes(row["state_key"])


async def attempts(tx: Tx, job_id: str) -> list[Attempt]:
    rows = await tx.all(
        "SELECT " + ATTEMPTS.columns + " FROM attempts WHERE job_id = :job_id ORDER BY number", job_id=job_id
    )
    return rows_to(Attempt, rows)


async def steps(tx: Tx, job_id: str, attempt: int) -> list[StepRow]:
    rows = await tx.all(
        "SELECT " + STEPS.columns_without("attempt") + " FROM steps WHERE job_id = :job_id AND attempt = :attempt",
        job_id=job_id,
        attempt=attempt,
    )
    return rows_to(StepRow, rows)


async def notes(tx: Tx, job_id: str) -> list[Note]:
    rows = await tx.all(
        "SELECT " + NOTES.columns + " FROM notes WHERE job_id = :job_id ORDER BY created_at, attempt, event",
        job_id=job_id,
    )
    return rows_to(Note, rows)


async def find_created(tx: Tx, organization_id: str, created_by: str, idempotency_key: str) -> Job | None:
    """Return the job that this principal created with this key before."""
    row = await tx.one(
        "SELECT "
        + JOBS.columns
        + """ FROM jobs
        WHERE organization_id = :organization_id AND created_by = :created_by AND idempotency_key = :key""",
        organization_id=organization_id,
        created_by=created_by,
        key=idempotency_key,
    )
    return None if row is None else row_to(Job, row)


async def insert(tx: Tx, jobs: Sequence[tuple[Job, str | None]]) -> None:
    """Write new jobs by one statement, each with the idempotency key of its request."""
    await tx.each(_INSERT_JOBS, _INSERT_JOBS_TYPES, [(*values(job), key) for job, key in jobs])
    for job, _ in jobs:
        tx.wake("queue", job.id)
        tx.wake("jobs", job.id)


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
            raise Superseded(f"job {before.number} is no longer as it was: {before.status} in attempt {before.attempt}")
        _wake(tx, before, after, is_own_report)
        tx.on_commit(partial(counts.job_moved, before, after))


def _wake(tx: Tx, before: Job, after: Job, is_own_report: bool) -> None:
    """Wake the pages, the scheduler and the hub. An attempt that reported a change need not be told to stop because of it."""
    tx.wake("jobs", after.id)
    if before.is_active and not after.is_active:
        tx.wake("freed", f"{before.id} {before.module_id} {before.instance_id}")
    if (after.status == "QUEUED") != (before.status == "QUEUED"):
        tx.wake("queue", after.id)
    if is_own_report:
        return
    if before.is_active and (after.attempt != before.attempt or after.is_terminal):
        tx.wake("ended", f"{before.id} {before.attempt}")
    if after.is_active and after.cancel_mode is not None:
        tx.wake("cancel", after.id)


async def save_attempt(tx: Tx, before: Attempt, after: Attempt) -> None:
    """Write an attempt's progress and end; its mark belongs to the ingest and is not touched."""
    touched = await tx.run(
        f"""UPDATE attempts SET {assignments(*_DECIDED_OF_ATTEMPT)}
        WHERE job_id = :job_id AND number = :number AND coalesce(outcome, '') = :was
            AND (started_at IS NULL) = :was_unstarted AND (begun_at IS NULL) = :was_unbegun""",
        was=before.outcome or "",
        was_unstarted=before.started_at is None,
        was_unbegun=before.begun_at is None,
        **to_params(after, "job_id", "number", *_DECIDED_OF_ATTEMPT),
    )
    if not touched:
        raise Superseded(f"attempt {before.number} of {before.job_id} has changed in the meantime")
    tx.on_commit(partial(counts.attempt_moved, before, after))


async def save_progress(tx: Tx, moved: Sequence[tuple[Attempt, Attempt]]) -> None:
    """Write by one statement what attempts have reported, unless another delivery or a decision came first."""
    rows = [(*values(after, *_REPORTED_OF_ATTEMPT), before.mark, before.outcome or "") for before, after in moved]
    if rows and len(await tx.each(_SAVE_PROGRESS, _SAVE_PROGRESS_TYPES, rows)) != len(rows):
        raise Superseded("an attempt has changed in the meantime; deliver its events again")


async def save_steps(tx: Tx, rows: Sequence[SavedStep]) -> None:
    """Write the status of steps, by one statement."""
    await tx.each(_SAVE_STEPS, _SAVE_STEPS_TYPES, rows)


async def move(tx: Tx, job: Job, attempt: Attempt, decision: Decision) -> None:
    """Save a decision. If the attempt has ended, the steps that it was running end as well."""
    await save_attempt(tx, attempt, decision.attempt)
    if decision.plan is not None:
        await plan_store.save(tx, decision.plan)
    if decision.ends_doubt:
        await _end_doubt(tx, job.module_id)
    if decision.attempt.ended_at is not None:
        await tx.run(
            """UPDATE steps SET status = 'CANCELED', finished_at = :now
            WHERE job_id = :job_id AND attempt = :attempt AND status = 'RUNNING'""",
            job_id=attempt.job_id,
            attempt=attempt.number,
            now=tx.now,
        )
    if decision.job != job:
        await save_transition(tx, job, decision.job)
    else:
        tx.wake("jobs", job.id)


async def doubtful(tx: Tx, module_id: str) -> list[Attempt]:
    """Return the attempts of the module that are in doubt, and lock their rows until the transaction ends."""
    rows = await tx.all(
        "SELECT "
        + ATTEMPTS.columns
        + """ FROM attempts
        WHERE attempts.is_in_doubt AND attempts.job_id IN (SELECT id FROM jobs WHERE module_id = :module_id)
        ORDER BY attempts.job_id, attempts.number FOR NO KEY UPDATE""",
        module_id=module_id,
    )
    return rows_to(Attempt, rows)


async def _end_doubt(tx: Tx, module_id: str) -> None:
    await tx.run(
        """UPDATE attempts SET is_in_doubt = false
        WHERE is_in_doubt AND job_id IN (SELECT id FROM jobs WHERE module_id = :module_id)""",
        module_id=module_id,
    )


async def note(tx: Tx, job_id: str, attempt: int, event: int, text: str, *, most: int) -> None:
    """Store a note, unless the attempt already has the most that are allowed."""
    await tx.run(
        """INSERT INTO notes (job_id, attempt, event, text, created_at)
        SELECT CAST(:job_id AS text), CAST(:attempt AS bigint), CAST(:event AS bigint), CAST(:text AS text),
            CAST(:now AS double precision)
        WHERE (SELECT count(*) FROM notes WHERE job_id = :job_id AND attempt = :attempt) < :most
        ON CONFLICT DO NOTHING""",
        job_id=job_id,
        attempt=attempt,
        event=event,
        text=text,
        now=tx.now,
        most=most,
    )


async def delete_details(tx: Tx, job_id: str) -> None:
    """Delete the attempts, steps and notes of a job. Without its attempts, nothing more is accepted for it."""
    for statement in (
        "DELETE FROM attempts WHERE job_id = :id",
        "DELETE FROM notes WHERE job_id = :id",
        "DELETE FROM steps WHERE job_id = :id",
    ):
        await tx.run(statement, id=job_id)


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
