"""Reads chunks of logs that are still in rows."""

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
