"""Rows of attempts, their steps and their notes; every write of a decision is a compare-and-set."""

from collections.abc import Sequence
from functools import partial
from typing import LiteralString, NamedTuple

from terracrew.api.jobs import Attempt, Note, StepRow
from terracrew.errors import Superseded
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.mapping import rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments, values
from terracrew.server.jobs import metrics as counts

ATTEMPTS = Table("attempts", Attempt)
STEPS = Table("steps", StepRow)
NOTES = Table("notes", Note)
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
    "may_hold_lock",
    "is_delivered",
    "may_have_begun",
)
"""The columns of an attempt that a decision may change; the others belong to its claim and to the ingest."""
_REPORTED_OF_ATTEMPT = (
    "job_id",
    "number",
    "mark",
    "lines",
    "log_bytes",
    "started_at",
    "ended_at",
    "outcome",
    "reason",
    "is_gone",
    "is_in_doubt",
    "is_change_ended",
    "has_result",
    "has_unreadable_state",
    "may_hold_lock",
    "received_at",
    "is_output_missing",
)
# A person may have declared the attempt gone, or have ended its doubt, while it was delivering: neither is taken back. A doubt that
# came back meanwhile is not ended by a delivery that did not know of it.
_SAVE_PROGRESS: LiteralString = """
UPDATE attempts SET mark = batch.mark, lines = batch.lines, log_bytes = batch.log_bytes,
    started_at = batch.started_at, ended_at = batch.ended_at, outcome = batch.outcome, reason = batch.reason,
    is_gone = attempts.is_gone OR batch.is_gone,
    is_in_doubt = CASE WHEN attempts.ended_at IS NULL THEN batch.is_in_doubt
        ELSE attempts.is_in_doubt AND (batch.is_in_doubt OR NOT batch.was_in_doubt) END,
    is_change_ended = batch.is_change_ended, has_result = batch.has_result,
    has_unreadable_state = batch.has_unreadable_state, may_hold_lock = batch.may_hold_lock, has_log_chunks = true,
    received_at = batch.received_at, is_output_missing = batch.is_output_missing, is_log_searched = false
FROM batch WHERE attempts.job_id = batch.job_id AND attempts.number = batch.number AND attempts.mark = batch.was
    AND coalesce(attempts.outcome, '') = batch.was_outcome
RETURNING attempts.job_id"""
_SAVE_PROGRESS_TYPES = ATTEMPTS.types_of(
    *_REPORTED_OF_ATTEMPT, was="bigint", was_outcome="text", was_in_doubt="boolean"
)
_IS_DOUBT_OF_MODULE: LiteralString = """attempts.is_in_doubt AND EXISTS (
    SELECT 1 FROM jobs WHERE jobs.id = attempts.job_id AND jobs.module_id || '' = :module_id)"""
"""`module_id || ''` keeps SQLite from reading every job that the module ever had: few attempts are in doubt. For the same reason,
they are ordered by `job_id || ''`, because SQLite would otherwise read all attempts in the order of the primary key."""
_SAVE_STEPS: LiteralString = (
    STEPS.insert_batch("job_id", *STEPS.fields)
    + """ ON CONFLICT (job_id, attempt, name) DO UPDATE SET status = excluded.status, exit_code = excluded.exit_code,
    started_at = coalesce(steps.started_at, excluded.started_at), finished_at = excluded.finished_at,
    kept_from = excluded.kept_from"""
)
_SAVE_STEPS_TYPES: Columns = {"job_id": "text", **STEPS.types}


class SavedStep(NamedTuple):
    """A row of `steps` in the order of `_SAVE_STEPS_TYPES`. Its times come from the clock of another machine, as they are."""

    job_id: str
    name: str
    status: str
    started_at: float | None
    finished_at: float | None
    exit_code: int | None
    attempt: int
    kept_from: int | None = None


_INSERT_RESTORED: LiteralString = ATTEMPTS.insert("hub_sha256", "api_sha256", "state_key")


async def get_attempt(tx: Tx, job_id: str, number: int) -> Attempt | None:
    return await ATTEMPTS.find(tx, job_id=job_id, number=number)


async def is_claimed_with(tx: Tx, job_id: str, attempt: int, hub_sha256: str) -> bool:
    """Return whether an attempt was made with this credential."""
    row = await tx.one(
        "SELECT number FROM attempts WHERE job_id = :job_id AND number = :attempt AND hub_sha256 = :hub",
        job_id=job_id,
        attempt=attempt,
        hub=hub_sha256,
    )
    return row is not None


async def attempts(tx: Tx, job_id: str) -> list[Attempt]:
    return await ATTEMPTS.all(tx, "FROM attempts WHERE job_id = :job_id ORDER BY number", job_id=job_id)


async def steps(tx: Tx, job_id: str, attempt: int) -> list[StepRow]:
    rows = await tx.all(
        "SELECT " + STEPS.columns_without("attempt") + " FROM steps WHERE job_id = :job_id AND attempt = :attempt",
        job_id=job_id,
        attempt=attempt,
    )
    return rows_to(StepRow, rows)


async def notes(tx: Tx, job_id: str) -> list[Note]:
    return await NOTES.all(tx, "FROM notes WHERE job_id = :job_id ORDER BY created_at, attempt, event", job_id=job_id)


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


async def note_start(tx: Tx, job_id: str, number: int, instance_id: str, reason: str) -> bool:
    """Write what the start of an attempt waits for. Returns False if it has started or ended, or is of another instance."""
    return bool(
        await tx.run(
            """UPDATE attempts SET reason = :reason WHERE job_id = :job_id AND number = :number
                AND instance_id = :instance_id AND started_at IS NULL AND ended_at IS NULL""",
            job_id=job_id,
            number=number,
            instance_id=instance_id,
            reason=reason,
        )
    )


async def save_progress(tx: Tx, moved: Sequence[tuple[Attempt, Attempt]]) -> None:
    """Write by one statement what attempts have reported, unless another delivery or a decision came first."""
    rows = [
        (*values(after, *_REPORTED_OF_ATTEMPT), before.mark, before.outcome or "", before.is_in_doubt)
        for before, after in moved
    ]
    if rows and len(await tx.each(_SAVE_PROGRESS, _SAVE_PROGRESS_TYPES, rows)) != len(rows):
        raise Superseded("an attempt has changed in the meantime; deliver its events again")


async def set_log_searched(tx: Tx, job_id: str, number: int, mark: int) -> bool:
    """Note that the log of an attempt was searched up to this event. Returns False if more of it has arrived since."""
    return bool(
        await tx.run(
            "UPDATE attempts SET is_log_searched = true WHERE job_id = :job_id AND number = :number AND mark = :mark",
            job_id=job_id,
            number=number,
            mark=mark,
        )
    )


async def keep_plan(tx: Tx, job_id: str, number: int) -> None:
    """Keep the plan that the job has now as the one that this attempt was to carry out: the job is about to make another one."""
    await tx.run(
        """UPDATE attempts SET plan = (SELECT jobs.plan FROM jobs WHERE jobs.id = :job_id)
        WHERE job_id = :job_id AND number = :number""",
        job_id=job_id,
        number=number,
    )


async def save_steps(tx: Tx, rows: Sequence[SavedStep]) -> None:
    """Write the status of steps, by one statement."""
    await tx.each(_SAVE_STEPS, _SAVE_STEPS_TYPES, rows)


async def failed_steps(tx: Tx, attempts: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Step]:
    """Return the step that failed in each of these attempts; the last one, if several did."""
    rows = await tx.each(
        """SELECT steps.job_id, steps.attempt, steps.name FROM batch
        JOIN steps ON steps.job_id = batch.job_id AND steps.attempt = batch.number AND steps.status = 'FAILED'
        ORDER BY steps.finished_at, steps.name""",
        {"job_id": "text", "number": "bigint"},
        sorted(attempts),
    )
    return {(row["job_id"], row["attempt"]): Step(row["name"]) for row in rows}


async def end_steps(tx: Tx, attempt: Attempt) -> None:
    """Write that the steps which still ran when the attempt ended have ended, too."""
    await tx.run(
        """UPDATE steps SET status = 'CANCELED', finished_at = :now
        WHERE job_id = :job_id AND attempt = :attempt AND status = 'RUNNING'""",
        job_id=attempt.job_id,
        attempt=attempt.number,
        now=tx.now,
    )


async def doubtful(tx: Tx, module_id: str) -> list[Attempt]:
    """Return the attempts of the module that are in doubt, and lock their rows until the transaction ends."""
    return await ATTEMPTS.all(
        tx,
        f"""FROM attempts WHERE {_IS_DOUBT_OF_MODULE}
        ORDER BY attempts.job_id || '', attempts.number FOR NO KEY UPDATE""",
        module_id=module_id,
    )


async def end_doubt(tx: Tx, module_id: str) -> None:
    await tx.run(
        f"UPDATE attempts SET is_in_doubt = false WHERE {_IS_DOUBT_OF_MODULE}",
        module_id=module_id,
    )


async def doubt_again(tx: Tx, attempts: Sequence[AttemptRef]) -> None:
    """Put attempts in doubt again, except those that are known by now to have ended their changes."""
    await tx.each(
        """UPDATE attempts SET is_in_doubt = true FROM batch
        WHERE attempts.job_id = batch.job_id AND attempts.number = batch.number AND NOT attempts.is_change_ended""",
        ATTEMPTS.types_of("job_id", "number"),
        [(each.job_id, each.attempt) for each in attempts],
    )


async def assume_begun(tx: Tx) -> None:
    """Count the running attempts of jobs that change something as begun, because the database may have lost their `begin`."""
    await tx.run(
        """UPDATE attempts SET may_have_begun = true WHERE attempts.ended_at IS NULL AND attempts.begun_at IS NULL
            AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = attempts.job_id AND jobs.type <> 'PLAN')"""
    )


async def insert_restored(tx: Tx, attempt: Attempt, hub_sha256: str, api_sha256: str, state_key: bytes) -> None:
    """Write an attempt again that the database has lost, with its credentials."""
    await tx.run(
        _INSERT_RESTORED,
        **to_params(attempt),
        hub_sha256=hub_sha256,
        api_sha256=api_sha256,
        state_key=state_key,
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
