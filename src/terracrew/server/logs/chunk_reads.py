"""Reads the chunks of logs that are still in rows, and which logs can be moved from there."""

from terracrew.server.db.seam import Row, Tx


async def last_chunk(tx: Tx, job_id: str, attempt: int) -> bytes | None:
    """Return the end of an attempt's log; None if none of it is in rows."""
    row = await tx.one(
        "SELECT data FROM log_chunks WHERE job_id = :job_id AND attempt = :attempt ORDER BY first DESC LIMIT 1",
        job_id=job_id,
        attempt=attempt,
    )
    return None if row is None else bytes(row["data"])


async def sizes_after(tx: Tx, job_id: str, attempt: int, event: int) -> list[Row]:
    """Return the first event and the size of each chunk with events after this one, newest first, at most 2000."""
    return await tx.all(
        """SELECT first, size FROM log_chunks WHERE job_id = :job_id AND attempt = :attempt AND last > :event
        ORDER BY first DESC LIMIT 2000""",
        job_id=job_id,
        attempt=attempt,
        event=event,
    )


async def data_from(tx: Tx, job_id: str, attempt: int, first: int) -> list[bytes]:
    """Return the chunks from the one that begins with this event to the end."""
    rows = await tx.all(
        """SELECT data FROM log_chunks WHERE job_id = :job_id AND attempt = :attempt AND first >= :first
        ORDER BY first""",
        job_id=job_id,
        attempt=attempt,
        first=first,
    )
    return [bytes(row["data"]) for row in rows]


async def following(tx: Tx, job_id: str, attempt: int, after: int, count: int, max_bytes: int) -> list[Row]:
    """Return the next chunks after this event: at most `count` chunks, and about `max_bytes` bytes."""
    return await tx.all(
        """SELECT log_chunks.first, log_chunks.last, log_chunks.first_line, log_chunks.lines, log_chunks.data
        FROM (
            SELECT job_id, attempt, first, sum(bytes) OVER (ORDER BY first) - bytes AS before
            FROM (
                SELECT job_id, attempt, first, length(data) AS bytes FROM log_chunks
                WHERE job_id = :job_id AND attempt = :attempt AND first > :after ORDER BY first LIMIT :rows
            ) AS following
        ) AS near
        JOIN log_chunks USING (job_id, attempt, first)
        WHERE near.before < :bytes ORDER BY first""",
        job_id=job_id,
        attempt=attempt,
        after=after,
        rows=count,
        bytes=max_bytes,
    )


async def moved_chunks(tx: Tx, job_id: str, attempt: int, count: int) -> list[Row]:
    """Return the first chunks whose events readers take from an object, each with its number of bytes."""
    return await tx.all(
        """SELECT log_chunks.first, length(log_chunks.data) AS bytes FROM attempts
            JOIN log_chunks ON log_chunks.job_id = attempts.job_id AND log_chunks.attempt = attempts.number
                AND log_chunks.first <= attempts.log_moved
            WHERE attempts.job_id = :job_id AND attempts.number = :attempt ORDER BY log_chunks.first LIMIT :rows""",
        job_id=job_id,
        attempt=attempt,
        rows=count,
    )


async def marks(tx: Tx, job_id: str, attempt: int) -> Row | None:
    """Return the last event of an attempt that is stored, and the last one that has been moved."""
    return await tx.one(
        "SELECT mark, log_moved FROM attempts WHERE job_id = :job_id AND number = :attempt",
        job_id=job_id,
        attempt=attempt,
    )


async def ended_logs(tx: Tx, before: float, late: float, count: int, skip: int) -> list[Row]:
    """Return attempts with chunks that ended before this time, the oldest first; those without a result, before `late`."""
    return await tx.all(
        """SELECT job_id, number FROM attempts
            WHERE has_log_chunks AND ended_at IS NOT NULL AND ended_at <= :before AND NOT is_in_doubt
                AND (has_result OR ended_at <= :late)
            ORDER BY ended_at LIMIT :page OFFSET :skip""",
        before=before,
        late=late,
        page=count,
        skip=skip,
    )
