"""Reads states and outputs with the names of the jobs and runners that they come from."""

from collections.abc import Iterable, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, runner_path

MAX_QUARANTINED = 100
"""How many states in quarantine a page shows."""
_QUARANTINED: LiteralString = f"""
SELECT states.id, states.job_id, coalesce(jobs.number, 0) AS job_number,
    coalesce((SELECT name FROM users WHERE users.id = states.brought_by),
        (SELECT name FROM service_accounts WHERE service_accounts.id = states.brought_by), states.brought_by) AS written_by,
    states.attempt, states.origin, states.serial, states.lineage,
    states.size, states.created_at, states.problem, now.serial AS current_serial, now.lineage AS current_lineage,
    now.created_at AS current_at, {runner_path("attempts")} AS runner_path, modules.backend
FROM states LEFT JOIN jobs ON jobs.id = states.job_id JOIN modules ON modules.id = states.module_id
LEFT JOIN attempts ON attempts.job_id = states.job_id AND attempts.number = states.attempt
LEFT JOIN states AS now ON now.module_id = states.module_id AND now.status = 'current'
WHERE states.module_id = :module_id AND states.status = 'quarantined' ORDER BY states.id LIMIT :count"""


async def quarantined(tx: Tx, module_id: str) -> list[Row]:
    """Return the states of a module that are in quarantine, oldest first, each with the state that it would replace."""
    return await tx.all(_QUARANTINED, module_id=module_id, count=MAX_QUARANTINED)


async def quarantined_states(tx: Tx, module_id: str, count: int) -> list[Row]:
    """Return the oldest states of a module that are in quarantine, with the numbers of their jobs."""
    return await tx.all(
        """SELECT states.id, states.job_id, coalesce(jobs.number, 0) AS number, states.attempt, states.serial, states.created_at,
            states.problem, coalesce((SELECT name FROM users WHERE users.id = states.brought_by),
                (SELECT name FROM service_accounts WHERE service_accounts.id = states.brought_by), states.brought_by) AS written_by
        FROM states LEFT JOIN jobs ON jobs.id = states.job_id
        WHERE states.module_id = :module_id AND states.status = 'quarantined'
        ORDER BY states.id LIMIT :most""",
        module_id=module_id,
        most=count,
    )


async def written_versions(tx: Tx, module_id: str, count: int) -> list[Row]:
    """Return the newest versions of a module's state, each with the job that wrote it and who queued that job, or who brought it."""
    return await tx.all(
        """SELECT states.id, states.version, states.serial, states.status, states.origin, states.size,
            states.resources, states.created_at, states.job_id, jobs.number AS job_number, jobs.type AS job_type,
            coalesce((SELECT name FROM users WHERE users.id = coalesce(jobs.created_by, states.brought_by)),
                (SELECT name FROM service_accounts WHERE service_accounts.id = coalesce(jobs.created_by, states.brought_by)),
                jobs.created_by, states.brought_by) AS started_by, attempts.is_in_doubt
        FROM states LEFT JOIN jobs ON jobs.id = states.job_id
        LEFT JOIN attempts ON attempts.job_id = states.job_id AND attempts.number = states.attempt
        WHERE states.module_id = :module_id AND states.version IS NOT NULL ORDER BY states.id DESC LIMIT :count""",
        module_id=module_id,
        count=count,
    )


async def brought_since(tx: Tx, module_id: str, read_at: float) -> float | None:
    """Return when a person wrote or brought the current state of a module, if that was after this time."""
    return await tx.value(
        """SELECT created_at FROM states WHERE module_id = :module_id AND status = 'current' AND brought_by <> ''
            AND created_at > :read_at""",
        module_id=module_id,
        read_at=read_at,
    )


async def outputs_of_job(tx: Tx, job_id: str) -> Row | None:
    """Return the encrypted outputs that a job read, or the name of the object that holds them."""
    return await tx.one(
        "SELECT job_id, module_id, sha256, content, object, created_at FROM outputs WHERE job_id = :job_id",
        job_id=job_id,
    )


async def current_facts(tx: Tx, module_id: str, job_id: str, attempt: int) -> Row | None:
    """Return what is known of a module's current state; `is_own` is true if this attempt wrote it."""
    return await tx.one(
        """SELECT version, serial, created_at, resources, job_id = :job_id AND attempt = :attempt AS is_own
        FROM states WHERE module_id = :module_id AND status = 'current'""",
        module_id=module_id,
        job_id=job_id,
        attempt=attempt,
    )


async def object_names(tx: Tx, attempts: Sequence[tuple[str, int]]) -> set[str]:
    """Return the objects that hold the states of these attempts (job, number) and the outputs of their jobs."""
    rows = await tx.each(
        """SELECT states.object FROM batch JOIN states ON states.job_id = batch.job_id AND states.attempt = batch.attempt
        WHERE states.object IS NOT NULL
        UNION ALL SELECT outputs.object FROM batch JOIN outputs ON outputs.job_id = batch.job_id
        WHERE outputs.object IS NOT NULL""",
        {"job_id": "text", "attempt": "bigint"},
        attempts,
    )
    return {row["object"] for row in rows}


async def removable(tx: Tx, after: str, newest: str, before: float, kept_count: int, limit: int) -> list[Row]:
    """Return states, made before this time by jobs that have ended, that may be removed, after this one.

    The newest `kept_count` states of a module stay. Discarded ones were never current, so they do not count among the newest.
    What is known of an attempt in doubt includes its states, so those stay. `newest` sorts behind all states in question.
    """
    return await tx.all(
        """SELECT states.id, states.size AS bytes, states.object FROM states
        WHERE states.id > :after AND states.id < :newest AND states.created_at <= :before
            AND states.status IN ('superseded', 'discarded')
            AND states.id < coalesce((SELECT kept.id FROM states AS kept
                WHERE kept.module_id = states.module_id AND kept.version IS NOT NULL
                ORDER BY kept.id DESC LIMIT 1 OFFSET :others), '')
            AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = states.job_id AND jobs.finished_at IS NULL)
            AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.job_id = states.job_id
                AND attempts.number = states.attempt AND attempts.is_in_doubt)
        ORDER BY states.id LIMIT :limit""",
        after=after,
        newest=newest,
        before=before,
        others=kept_count - 1,
        limit=limit,
    )


async def lock_holder(tx: Tx, module_id: str) -> Row | None:
    """Return the number of the active job of a module, which holds the lock of its state."""
    return await tx.one(
        f"SELECT number FROM jobs WHERE module_id = :module_id AND status IN {ACTIVE_STATUSES}",
        module_id=module_id,
    )


async def jobs_with_outputs(tx: Tx, job_ids: Iterable[str]) -> set[str]:
    """Return those of these jobs whose outputs were kept."""
    rows = await tx.each_id(
        "SELECT outputs.job_id FROM batch JOIN outputs ON outputs.job_id = batch.id", sorted(job_ids)
    )
    return {row["job_id"] for row in rows}
