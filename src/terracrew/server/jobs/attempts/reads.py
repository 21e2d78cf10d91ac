"""What is read about the attempts of jobs without changing them."""

from collections.abc import Sequence

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, is_destroyed_after
from terracrew.server.jobs.attempt_store import ATTEMPTS

_OF_MODULE: Columns = {"id": "text", "module_id": "text"}
_NUMBERED: Columns = {"job_id": "text", "attempt": "bigint"}


async def in_doubt(tx: Tx, module_id: str) -> list[Row]:
    """Return the job and the number of each attempt that puts a module in doubt, oldest first.

    Few attempts are in doubt. `module_id || ''` keeps SQLite from reading every job that the module ever had.
    """
    return await tx.all(
        """SELECT attempts.job_id, attempts.number FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE jobs.module_id || '' = :module_id AND attempts.is_in_doubt ORDER BY attempts.ended_at""",
        module_id=module_id,
    )


async def in_doubt_for_each(tx: Tx, waiting: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the attempts that put the modules of these jobs (job, module) in doubt; `waiting` is the job."""
    return await tx.each(
        "SELECT batch.id AS waiting, jobs.number AS job_number, "
        + ATTEMPTS.columns
        + """ FROM attempts JOIN jobs ON jobs.id = attempts.job_id JOIN batch ON batch.module_id = jobs.module_id || ''
        WHERE attempts.is_in_doubt""",
        _OF_MODULE,
        waiting,
    )


async def lock_holders(tx: Tx, waiting: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the active job and its attempt in the module of each of these jobs (job, module); `waiting` is the job."""
    return await tx.each(
        f"""SELECT batch.id AS waiting, jobs.id, jobs.number, attempts.claimed_at, attempts.lost_at
        FROM batch JOIN jobs ON jobs.module_id = batch.module_id AND jobs.status IN {ACTIVE_STATUSES}
        JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt""",
        _OF_MODULE,
        waiting,
    )


async def progress(tx: Tx, attempts: Sequence[tuple[str, int]]) -> list[Row]:
    """Return how far these attempts (job, number) are and the time of their last contact."""
    return await tx.each(
        """SELECT attempts.job_id, attempts.instance_id, attempts.claimed_at, attempts.begun_at, attempts.lost_at,
            attempts.may_have_begun,
            attempts.reason, coalesce(attempts.heard_at, attempts.claimed_at) AS heard_at, attempts.executor_heard_at
        FROM batch JOIN attempts ON attempts.job_id = batch.id AND attempts.number = batch.attempt""",
        {"id": "text", "attempt": "bigint"},
        attempts,
    )


async def running(tx: Tx, attempts: Sequence[tuple[str, int]]) -> list[Row]:
    """Return those of these attempts (job, number) that have not ended."""
    return await tx.each(
        """SELECT attempts.job_id, attempts.number FROM batch JOIN attempts ON attempts.job_id = batch.job_id
            AND attempts.number = batch.attempt AND attempts.ended_at IS NULL""",
        _NUMBERED,
        attempts,
    )


async def without_result(tx: Tx, attempts: Sequence[tuple[str, int]]) -> list[Row]:
    """Return how much those of these attempts (job, number) have delivered that have not delivered a result."""
    return await tx.each(
        """SELECT attempts.job_id, attempts.number, attempts.mark, attempts.ended_at FROM batch
        JOIN attempts ON attempts.job_id = batch.job_id AND attempts.number = batch.attempt AND NOT attempts.has_result""",
        _NUMBERED,
        attempts,
    )


async def change_without_outputs(tx: Tx, module_id: str, read_at: float) -> Row | None:
    """Return the first change that began after outputs were read, and whose own outputs are not known. 0 finds one after none."""
    return await tx.one(
        f"""SELECT jobs.id AS job_id, jobs.number, attempts.begun_at
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE jobs.module_id = :module_id AND attempts.begun_at > :read_at
            AND NOT {is_destroyed_after(":module_id", "attempts.begun_at")}
        ORDER BY attempts.begun_at LIMIT 1""",
        module_id=module_id,
        read_at=read_at,
    )


async def silent_or_lost(tx: Tx, since: float) -> list[Row]:
    """Return the attempts of active jobs without contact since this time, and those that count as lost."""
    return await tx.all(
        "SELECT "
        + ATTEMPTS.columns
        + f"""
        FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
        WHERE jobs.status IN {ACTIVE_STATUSES}
            AND (attempts.lost_at IS NOT NULL OR coalesce(attempts.heard_at, attempts.claimed_at) < :since)""",
        since=since,
    )


async def has_begun(tx: Tx, module_id: str) -> bool:
    """Return whether any attempt of the module is between its `begin` and its end."""
    row = await tx.one(
        f"""SELECT 1 AS yes FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE jobs.module_id = :module_id AND jobs.status IN {ACTIVE_STATUSES} AND attempts.ended_at IS NULL
            AND (attempts.begun_at IS NOT NULL OR attempts.may_have_begun) LIMIT 1""",
        module_id=module_id,
    )
    return row is not None
