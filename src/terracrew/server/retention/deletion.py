"""Removes what was kept for deleted modules, in small batches, so that nobody else waits for a large one.

Every batch is a transaction of its own and the next one is found by what is left, so this goes on after a restart. Two servers
that do it at the same time delete each row once.
"""

from terracrew.errors import Conflict, Superseded
from terracrew.logging import get_logger
from terracrew.server.db import batches
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.jobs import service as jobs
from terracrew.server.modules import removal
from terracrew.server.retention import objects

BATCH_ROWS = 200
"""Rows that one statement deletes; fewer if they have more than `batches.MAX_BYTES` together."""
_JOBS = 50
log = get_logger("terracrew.server")


async def remove_deleted(db: Database) -> int:
    """Remove everything of every deleted module; how many modules are gone for good."""
    count, after = 0, ""
    while module_id := await db.read(lambda tx, after=after: removal.next_deleted(tx, after)):
        if await _remove_module(db, module_id):
            count += 1
        after = module_id
    return count


async def _remove_module(db: Database, module_id: str) -> bool:
    """False where a job of it has not ended yet: one was queued at the moment of the deletion."""
    is_waiting, after = False, ""
    while rows := await db.read(lambda tx, after=after: _jobs(tx, module_id, after)):
        for job_id, is_finished in rows:
            if is_finished:
                await _remove_job(db, job_id)
            else:
                await jobs.cancel_of_deleted_module(db, job_id)
                is_waiting = True
        after = rows[-1][0]
    while await db.write(lambda tx: _delete_states(tx, module_id)):
        pass
    if is_waiting:
        return False
    try:
        await db.write(lambda tx: tx.run("DELETE FROM modules WHERE id = :id", id=module_id))
    except Conflict:  # something was added meanwhile: the next pass finds it
        return False
    log.info("a deleted module is removed for good", module=module_id)
    return True


async def _jobs(tx: Tx, module_id: str, after: str) -> list[tuple[str, bool]]:
    rows = await tx.all(
        """SELECT id, finished_at IS NOT NULL AS is_finished FROM jobs
        WHERE module_id = :module_id AND id > :after ORDER BY id LIMIT :page""",
        module_id=module_id,
        after=after,
        page=_JOBS,
    )
    return [(row["id"], bool(row["is_finished"])) for row in rows]


async def _remove_job(db: Database, job_id: str) -> None:
    # Without its attempts, nothing more is accepted for the job.
    await db.write(lambda tx: _delete_small_rows(tx, job_id))
    while await db.write(lambda tx: _delete_chunks(tx, job_id)):
        pass
    try:
        await db.write(lambda tx: tx.run("DELETE FROM jobs WHERE id = :id", id=job_id))
    except (Conflict, Superseded):
        return  # a delivery was being stored at that moment: the next pass removes it


async def _delete_small_rows(tx: Tx, job_id: str) -> None:
    """Everything of a job but its log: a handful of rows for each attempt."""
    named = await tx.all(
        """SELECT object FROM log_objects WHERE job_id = :id UNION ALL
        SELECT object FROM outputs WHERE job_id = :id AND object IS NOT NULL UNION ALL
        SELECT 'plans/' || job_id || '/' || attempt || '/' || sha256 AS object FROM plans WHERE job_id = :id AND is_kept""",
        id=job_id,
    )
    await objects.delete_later(tx, [row["object"] for row in named])
    for statement in (
        "DELETE FROM attempts WHERE job_id = :id",
        "DELETE FROM log_objects WHERE job_id = :id",
        "DELETE FROM outputs WHERE job_id = :id",
        "DELETE FROM plans WHERE job_id = :id",
        "DELETE FROM notes WHERE job_id = :id",
        "DELETE FROM steps WHERE job_id = :id",
    ):
        await tx.run(statement, id=job_id)


async def _delete_chunks(tx: Tx, job_id: str) -> int:
    """Delete the next chunks of one attempt; how many."""
    rows = await tx.all(
        """SELECT attempt, first, length(data) AS bytes FROM log_chunks WHERE job_id = :job_id
        ORDER BY attempt, first LIMIT :rows""",
        job_id=job_id,
        rows=BATCH_ROWS,
    )
    if not rows:
        return 0
    attempt = rows[0]["attempt"]
    last = batches.leading([row for row in rows if row["attempt"] == attempt], _bytes)[-1]["first"]
    return await tx.run(
        "DELETE FROM log_chunks WHERE job_id = :job_id AND attempt = :attempt AND first <= :last",
        job_id=job_id,
        attempt=attempt,
        last=last,
    )


async def _delete_states(tx: Tx, module_id: str) -> int:
    """Delete the next states of a module; how many. The module's jobs are gone, so none is added."""
    rows = await tx.all(
        """SELECT id, object, coalesce(length(content), 0) AS bytes FROM states WHERE module_id = :module_id
        ORDER BY id LIMIT :rows""",
        module_id=module_id,
        rows=BATCH_ROWS,
    )
    chosen = batches.leading(rows, _bytes)
    await objects.delete_later(tx, [row["object"] for row in chosen if row["object"] is not None])
    keys = [(row["id"],) for row in chosen]
    await tx.each("DELETE FROM states WHERE id IN (SELECT id FROM batch)", {"id": "text"}, keys)
    return len(chosen)


def _bytes(row: Row) -> int:
    return row["bytes"]
