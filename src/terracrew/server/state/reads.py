"""Reads states and outputs with the names of the jobs and runners that they come from."""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import runner_path

MAX_QUARANTINED = 100
"""How many states in quarantine a page shows."""
_QUARANTINED: LiteralString = f"""
SELECT states.id, states.job_id, jobs.number AS job_number, states.attempt, states.origin, states.serial, states.lineage,
    states.size, states.created_at, states.problem, now.serial AS current_serial, now.lineage AS current_lineage,
    now.version AS current_version, now.created_at AS current_at, {runner_path("attempts")} AS runner_path
FROM states JOIN jobs ON jobs.id = states.job_id
LEFT JOIN attempts ON attempts.job_id = states.job_id AND attempts.number = states.attempt
LEFT JOIN states AS now ON now.module_id = states.module_id AND now.status = 'current'
WHERE states.module_id = :module_id AND states.status = 'quarantined' ORDER BY states.id LIMIT :count"""


async def quarantined(tx: Tx, module_id: str) -> list[Row]:
    """Return the states of a module that are in quarantine, oldest first, each with the state that it would replace."""
    return await tx.all(_QUARANTINED, module_id=module_id, count=MAX_QUARANTINED)


async def outputs_of_job(tx: Tx, job_id: str) -> Row | None:
    """Return the encrypted outputs that a job read, or the name of the object that holds them."""
    return await tx.one("SELECT content, object FROM outputs WHERE job_id = :job_id", job_id=job_id)


async def current_facts(tx: Tx, module_id: str, job_id: str, attempt: int) -> Row | None:
    """Return what is known of a module's current state; `is_own` is true if this attempt wrote it."""
    return await tx.one(
        """SELECT version, serial, created_at, resources, job_id = :job_id AND attempt = :attempt AS is_own
        FROM states WHERE module_id = :module_id AND status = 'current'""",
        module_id=module_id,
        job_id=job_id,
        attempt=attempt,
    )
