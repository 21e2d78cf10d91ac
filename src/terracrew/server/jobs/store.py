"""Rows of jobs, attempts, steps and notes; every write of a status is a compare-and-set."""

from datetime import UTC, datetime
from typing import LiteralString

from terracrew.errors import NotFound, Superseded
from terracrew.server.db.mapping import row_to, rows_to, to_params
from terracrew.server.db.seam import Tx
from terracrew.server.jobs.decide import Next
from terracrew.server.jobs.model import Attempt, Job, Note, StepRow

JOB: LiteralString = """jobs.id, jobs.organization_id, jobs.module_id, jobs.number, jobs.type, jobs.status, jobs.attempt, jobs.losses,
    jobs.priority, jobs.source, jobs.created_by, jobs.created_at, jobs.queued_at, jobs.runner_id, jobs.instance_id, jobs.cancel_mode,
    jobs.source_digest, jobs.source_description, jobs.engine_version, jobs.plan, jobs.message, jobs.claimed_at, jobs.started_at,
    jobs.finished_at"""
ATTEMPT: LiteralString = """attempts.job_id, attempts.number, attempts.runner_id, attempts.instance_id, attempts.claimed_at,
    attempts.mark, attempts.lines, attempts.started_at, attempts.begun_at, attempts.begun_state_version, attempts.ended_at,
    attempts.outcome, attempts.reason, attempts.is_gone"""


def moment(tx: Tx) -> datetime:
    return datetime.fromtimestamp(tx.now, UTC)


async def get(tx: Tx, job_id: str) -> Job:
    row = await tx.one("SELECT " + JOB + " FROM jobs WHERE id = :id", id=job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(Job, row)


async def get_attempt(tx: Tx, job_id: str, number: int) -> Attempt | None:
    row = await tx.one(
        "SELECT " + ATTEMPT + " FROM attempts WHERE job_id = :job_id AND number = :number", job_id=job_id, number=number
    )
    return None if row is None else row_to(Attempt, row)


async def sealed_key(tx: Tx, job_id: str, number: int) -> bytes:
    row = await tx.one(
        "SELECT state_key FROM attempts WHERE job_id = :job_id AND number = :number", job_id=job_id, number=number
    )
    if row is None:
        raise NotFound(f"{job_id} has no attempt {number}")
    return bytes(row["state_key"])


async def attempts(tx: Tx, job_id: str) -> list[Attempt]:
    rows = await tx.all("SELECT " + ATTEMPT + " FROM attempts WHERE job_id = :job_id ORDER BY number", job_id=job_id)
    return rows_to(Attempt, rows)


async def steps(tx: Tx, job_id: str, attempt: int) -> list[StepRow]:
    rows = await tx.all(
        "SELECT name, status, started_at, finished_at, exit_code FROM steps WHERE job_id = :job_id AND attempt = :attempt",
        job_id=job_id, attempt=attempt,
    )  # fmt: skip
    return rows_to(StepRow, rows)


async def notes(tx: Tx, job_id: str) -> list[Note]:
    rows = await tx.all(
        "SELECT attempt, text, created_at FROM notes WHERE job_id = :job_id ORDER BY created_at, attempt, event",
        job_id=job_id,
    )
    return rows_to(Note, rows)


async def save(tx: Tx, before: Job, after: Job) -> None:
    """Write the job as it shall be, if it still is as it was."""
    touched = await tx.run(
        """UPDATE jobs SET status = :status, attempt = :attempt, losses = :losses, runner_id = :runner_id, instance_id = :instance_id,
            cancel_mode = :cancel_mode, message = :message, queued_at = :queued_at, claimed_at = :claimed_at,
            started_at = :started_at, finished_at = :finished_at
        WHERE id = :id AND status = :was AND attempt = :was_attempt""",
        was=before.status.value,
        was_attempt=before.attempt,
        **to_params(
            after, "id", "status", "attempt", "losses", "runner_id", "instance_id", "cancel_mode", "message", "queued_at",
            "claimed_at", "started_at", "finished_at",
        ),
    )  # fmt: skip
    if not touched:
        raise Superseded(f"job {before.number} is no longer {before.status} in attempt {before.attempt}")
    tx.wake("jobs", after.id)
    if before.is_active and not after.is_active:
        tx.wake("freed", f"{before.id} {before.module_id} {before.instance_id}")
    if before.is_active and (after.attempt != before.attempt or after.is_terminal):
        tx.wake("ended", f"{before.id} {before.attempt}")
    if (after.status == "QUEUED") != (before.status == "QUEUED"):
        tx.wake("queue", after.id)


async def save_attempt(tx: Tx, before: Attempt, after: Attempt) -> None:
    """Write an attempt's progress and end; its mark belongs to the ingest and is not touched."""
    touched = await tx.run(
        """UPDATE attempts SET started_at = :started_at, begun_at = :begun_at, begun_state_version = :begun_state_version,
            ended_at = :ended_at, outcome = :outcome, reason = :reason, is_gone = :is_gone
        WHERE job_id = :job_id AND number = :number AND coalesce(outcome, '') = :was""",
        was=before.outcome or "",
        **to_params(
            after, "job_id", "number", "started_at", "begun_at", "begun_state_version", "ended_at", "outcome", "reason", "is_gone"
        ),
    )  # fmt: skip
    if not touched:
        raise Superseded(f"attempt {before.number} of {before.job_id} has ended meanwhile")


async def move(tx: Tx, job: Job, attempt: Attempt, decision: Next) -> None:
    await save_attempt(tx, attempt, decision.attempt)
    if decision.job != job:
        await save(tx, job, decision.job)


async def note(tx: Tx, job_id: str, attempt: int, event: int, text: str) -> None:
    await tx.run(
        """INSERT INTO notes (job_id, attempt, event, text, created_at) VALUES (:job_id, :attempt, :event, :text, :now)
        ON CONFLICT DO NOTHING""",
        job_id=job_id, attempt=attempt, event=event, text=text, now=tx.now,
    )  # fmt: skip
