"""Rows of jobs, attempts, steps and notes; every write of a status is a compare-and-set."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import LiteralString

from terracrew.errors import NotFound, Superseded
from terracrew.server.db.mapping import row_to, rows_to, to_params
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import metrics as counts
from terracrew.server.jobs.decide import Decision
from terracrew.server.jobs.model import Attempt, Job, Note, Plan, StepRow

JOB: LiteralString = """jobs.id, jobs.organization_id, jobs.module_id, jobs.number, jobs.type, jobs.status, jobs.attempt, jobs.losses,
    jobs.priority, jobs.source, jobs.created_by, jobs.created_at, jobs.queued_at, jobs.runner_id, jobs.instance_id, jobs.cancel_mode,
    jobs.source_digest, jobs.source_description, jobs.engine_version, jobs.plan, jobs.message, jobs.claimed_at, jobs.started_at,
    jobs.finished_at, jobs.needs_approval, jobs.approval_seconds, jobs.interrupted, jobs.plan_attempt,
    jobs.is_destroy_plan, jobs.has_own_source"""
ATTEMPT: LiteralString = """attempts.job_id, attempts.number, attempts.runner_id, attempts.instance_id, attempts.claimed_at,
    attempts.mark, attempts.lines, attempts.started_at, attempts.begun_at, attempts.begun_state_version, attempts.ended_at,
    attempts.outcome, attempts.reason, attempts.is_gone, attempts.heard_at, attempts.lost_at, attempts.is_in_doubt,
    attempts.is_change_ended, attempts.has_result, attempts.has_unreadable_state, attempts.inputs_sha256"""
PLAN: LiteralString = """plans.job_id, plans.attempt, plans.state_version, plans.inputs_sha256, plans.path, plans.sha256, plans.size,
    plans.made_at, plans.decide_by, plans.decision, plans.decided_by, plans.decided_at, plans.reason, plans.doubts,
    plans.why, plans.applied_by"""


def moment(tx: Tx) -> datetime:
    return datetime.fromtimestamp(tx.now, UTC)


async def get(tx: Tx, job_id: str) -> Job:
    row = await tx.one("SELECT " + JOB + " FROM jobs WHERE id = :id", id=job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(Job, row)


async def get_many(tx: Tx, job_ids: Sequence[str]) -> list[Job]:
    rows = await tx.each(
        "SELECT " + JOB + " FROM batch JOIN jobs ON jobs.id = batch.id", {"id": "text"}, [(each,) for each in job_ids]
    )
    return rows_to(Job, rows)


async def get_attempt(tx: Tx, job_id: str, number: int) -> Attempt | None:
    row = await tx.one(
        "SELECT " + ATTEMPT + " FROM attempts WHERE job_id = :job_id AND number = :number", job_id=job_id, number=number
    )
    return None if row is None else row_to(Attempt, row)


async def hold(tx: Tx, job_id: str, number: int) -> tuple[Job, Attempt] | None:
    """Return a job and one of its attempts, as they stay until the transaction ends; None where there is no such attempt.

    In the order in which the ingest writes them, so that none of us waits for the other for ever.
    """
    own = "SELECT " + ATTEMPT + " FROM attempts WHERE job_id = :job_id AND number = :number FOR NO KEY UPDATE"
    row = await tx.one(own, job_id=job_id, number=number)
    return None if row is None else (await hold_job(tx, job_id), row_to(Attempt, row))


async def hold_job(tx: Tx, job_id: str) -> Job:
    row = await tx.one("SELECT " + JOB + " FROM jobs WHERE id = :id FOR NO KEY UPDATE", id=job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(Job, row)


async def owned(tx: Tx, job_id: str, number: int) -> tuple[Job, Attempt, bytes] | None:
    """Return an attempt, its job, and the key of its states as it is stored; one question, since every executor asks it."""
    row = await tx.one(
        "SELECT " + JOB + """, attempts.state_key, attempts.number AS a_number, attempts.runner_id AS a_runner_id,
            attempts.instance_id AS a_instance_id, attempts.claimed_at AS a_claimed_at, attempts.mark AS a_mark,
            attempts.lines AS a_lines, attempts.started_at AS a_started_at, attempts.begun_at AS a_begun_at,
            attempts.begun_state_version AS a_begun_state_version, attempts.ended_at AS a_ended_at,
            attempts.outcome AS a_outcome, attempts.reason AS a_reason, attempts.is_gone AS a_is_gone,
            attempts.heard_at AS a_heard_at, attempts.lost_at AS a_lost_at, attempts.is_in_doubt AS a_is_in_doubt,
            attempts.is_change_ended AS a_is_change_ended, attempts.has_result AS a_has_result,
            attempts.has_unreadable_state AS a_has_unreadable_state, attempts.inputs_sha256 AS a_inputs_sha256
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE attempts.job_id = :job_id AND attempts.number = :number""",
        job_id=job_id, number=number,
    )  # fmt: skip
    if row is None:
        return None
    own = {name[2:]: value for name, value in row.items() if name.startswith("a_")}
    return row_to(Job, row), row_to(Attempt, {"job_id": job_id, **own}), bytes(row["state_key"])


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
            started_at = :started_at, finished_at = :finished_at, engine_version = :engine_version, plan = :plan,
            plan_attempt = :plan_attempt
        WHERE id = :id AND status = :was AND attempt = :was_attempt AND coalesce(cancel_mode, '') = :was_cancel""",
        was=before.status.value,
        was_attempt=before.attempt,
        was_cancel=before.cancel_mode or "",
        **to_params(
            after, "id", "status", "attempt", "losses", "runner_id", "instance_id", "cancel_mode", "message", "queued_at",
            "claimed_at", "started_at", "finished_at", "engine_version", "plan", "plan_attempt",
        ),
    )  # fmt: skip
    if not touched:
        raise Superseded(f"job {before.number} is no longer as it was: {before.status} in attempt {before.attempt}")
    tx.wake("jobs", after.id)
    if before.is_active and not after.is_active:
        tx.wake("freed", f"{before.id} {before.module_id} {before.instance_id}")
    if before.is_active and (after.attempt != before.attempt or after.is_terminal):
        tx.wake("ended", f"{before.id} {before.attempt}")
    if (after.status == "QUEUED") != (before.status == "QUEUED"):
        tx.wake("queue", after.id)
    tx.on_commit(partial(counts.job_moved, before, after))


async def save_attempt(tx: Tx, before: Attempt, after: Attempt) -> None:
    """Write an attempt's progress and end; its mark belongs to the ingest and is not touched."""
    touched = await tx.run(
        """UPDATE attempts SET started_at = :started_at, begun_at = :begun_at, begun_state_version = :begun_state_version,
            ended_at = :ended_at, outcome = :outcome, reason = :reason, is_gone = :is_gone, lost_at = :lost_at,
            is_in_doubt = :is_in_doubt, has_result = :has_result
        WHERE job_id = :job_id AND number = :number AND coalesce(outcome, '') = :was
            AND (started_at IS NULL) = :was_unstarted AND (begun_at IS NULL) = :was_unbegun""",
        was=before.outcome or "",
        was_unstarted=before.started_at is None,
        was_unbegun=before.begun_at is None,
        **to_params(
            after, "job_id", "number", "started_at", "begun_at", "begun_state_version", "ended_at", "outcome", "reason",
            "is_gone", "lost_at", "is_in_doubt", "has_result",
        ),
    )  # fmt: skip
    if not touched:
        raise Superseded(f"attempt {before.number} of {before.job_id} has ended, or gone on, meanwhile")
    tx.on_commit(partial(counts.attempt_moved, before, after))


async def move(tx: Tx, job: Job, attempt: Attempt, decision: Decision) -> None:
    """Save all of it; the steps that an attempt was in when it ended have ended, too."""
    await save_attempt(tx, attempt, decision.attempt)
    if decision.plan is not None:
        await save_plan(tx, decision.plan)
    if decision.ends_doubt:
        await _end_doubt(tx, job.module_id)
    if decision.attempt.ended_at is not None:
        await tx.run(
            """UPDATE steps SET status = 'CANCELED', finished_at = :now
            WHERE job_id = :job_id AND attempt = :attempt AND status = 'RUNNING'""",
            job_id=attempt.job_id, attempt=attempt.number, now=tx.now,
        )  # fmt: skip
    if decision.job != job:
        await save(tx, job, decision.job)
    else:
        tx.wake("jobs", job.id)


async def plan(tx: Tx, job_id: str, attempt: int) -> Plan | None:
    """Return the plan that an attempt made and kept."""
    row = await tx.one(
        "SELECT " + PLAN + " FROM plans WHERE job_id = :job_id AND attempt = :attempt", job_id=job_id, attempt=attempt
    )
    return None if row is None else row_to(Plan, row)


async def has_waited(tx: Tx, job_id: str) -> bool:
    """Return whether a plan of this job has waited for a person before."""
    return await tx.one("SELECT 1 AS yes FROM plans WHERE job_id = :job_id LIMIT 1", job_id=job_id) is not None


async def save_plan(tx: Tx, plan: Plan) -> None:
    """Keep a new one, or what was decided about one that nobody has decided about, or that an attempt has begun with it."""
    touched = await tx.run(
        """INSERT INTO plans (job_id, attempt, state_version, inputs_sha256, path, sha256, size, made_at, decide_by, why)
        VALUES (:job_id, :attempt, :state_version, :inputs_sha256, :path, :sha256, :size, :made_at, :decide_by, :why)
        ON CONFLICT (job_id, attempt) DO UPDATE SET decision = :decision, decided_by = :decided_by,
            decided_at = :decided_at, reason = :reason, doubts = :doubts, applied_by = :applied_by
        WHERE plans.applied_by IS NULL AND (plans.decision IS NULL OR plans.decision = :decision)""",
        **to_params(plan),
    )
    if not touched:
        raise Superseded(f"the plan of attempt {plan.attempt} has been decided about, or used, meanwhile")


async def doubtful(tx: Tx, module_id: str) -> list[Attempt]:
    """Attempts of the module after which something may be unaccounted for, as they stay until the transaction ends."""
    rows = await tx.all(
        "SELECT " + ATTEMPT + """ FROM attempts
        WHERE attempts.is_in_doubt AND attempts.job_id IN (SELECT id FROM jobs WHERE module_id = :module_id)
        ORDER BY attempts.job_id, attempts.number FOR NO KEY UPDATE""",
        module_id=module_id,
    )  # fmt: skip
    return rows_to(Attempt, rows)


async def _end_doubt(tx: Tx, module_id: str) -> None:
    await tx.run(
        """UPDATE attempts SET is_in_doubt = false
        WHERE is_in_doubt AND job_id IN (SELECT id FROM jobs WHERE module_id = :module_id)""",
        module_id=module_id,
    )


async def note(tx: Tx, job_id: str, attempt: int, event: int, text: str, *, most: int) -> None:
    """Keep it, unless the attempt has as many as it may."""
    await tx.run(
        """INSERT INTO notes (job_id, attempt, event, text, created_at)
        SELECT CAST(:job_id AS text), CAST(:attempt AS bigint), CAST(:event AS bigint), CAST(:text AS text),
            CAST(:now AS double precision)
        WHERE (SELECT count(*) FROM notes WHERE job_id = :job_id AND attempt = :attempt) < :most
        ON CONFLICT DO NOTHING""",
        job_id=job_id, attempt=attempt, event=event, text=text, now=tx.now, most=most,
    )  # fmt: skip
