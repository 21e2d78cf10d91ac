"""Reads which parts of a log are in the object store."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.logs.moved import Part, Removal


async def part_after(tx: Tx, job_id: str, attempt: int, after: int) -> Part | Removal | None:
    """Return the first part that has events after this one. None where those are in chunks, or there are none."""
    row = await tx.one(
        """SELECT attempts.log_moved, attempts.log_removed_at, attempts.log_removed_days,
            log_objects.object, log_objects.stored_bytes, log_objects.blocks
        FROM attempts LEFT JOIN log_objects ON log_objects.job_id = attempts.job_id
            AND log_objects.attempt = attempts.number AND log_objects.last > :after
        WHERE attempts.job_id = :job_id AND attempts.number = :attempt ORDER BY log_objects.first LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
        after=after,
    )
    if row is None:
        return None
    if row["object"] is not None:
        return row_to(Part, row)
    is_removed = row["log_removed_at"] is not None and row["log_moved"] > after
    return row_to(Removal, row) if is_removed else None


async def part_before_line(tx: Tx, job_id: str, attempt: int, line: int) -> Part | None:
    """Return the last part that has fewer line feeds than this before it."""
    row = await tx.one(
        """SELECT object, stored_bytes, blocks FROM log_objects
        WHERE job_id = :job_id AND attempt = :attempt AND first_line < :line ORDER BY first DESC LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
        line=line,
    )
    return None if row is None else row_to(Part, row)


async def last_part(tx: Tx, job_id: str, attempt: int) -> Part | None:
    row = await tx.one(
        """SELECT object, stored_bytes, blocks FROM log_objects
        WHERE job_id = :job_id AND attempt = :attempt ORDER BY first DESC LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
    )
    return None if row is None else row_to(Part, row)
