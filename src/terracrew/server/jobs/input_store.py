"""The rows of inputs that jobs were given for themselves, and of what each attempt was given, without values."""

from collections.abc import Sequence

from terracrew.server.db.seam import Row, Tx


async def insert_own(tx: Tx, rows: Sequence[tuple[str, bytes]]) -> None:
    """Write what jobs were given for themselves, encrypted."""
    await tx.each(
        "INSERT INTO job_inputs (job_id, sealed) SELECT job_id, sealed FROM batch WHERE true RETURNING job_id",
        {"job_id": "text", "sealed": "bytea"},
        rows,
    )


async def replace_own(tx: Tx, job_id: str, sealed: bytes) -> None:
    """Write what a job is given for itself from now on, encrypted."""
    await tx.run(
        """INSERT INTO job_inputs (job_id, sealed) VALUES (:job_id, :sealed)
        ON CONFLICT (job_id) DO UPDATE SET sealed = excluded.sealed""",
        job_id=job_id,
        sealed=sealed,
    )


async def own(tx: Tx, job_ids: Sequence[str]) -> dict[str, bytes]:
    """Return what these jobs were given for themselves, encrypted; those that were given nothing are left out."""
    rows = await tx.each(
        "SELECT job_inputs.job_id, job_inputs.sealed FROM batch JOIN job_inputs ON job_inputs.job_id = batch.job_id",
        {"job_id": "text"},
        [(each,) for each in job_ids],
    )
    return {row["job_id"]: bytes(row["sealed"]) for row in rows}


async def insert_used(tx: Tx, rows: Sequence[tuple[str, int, str]]) -> None:
    """Write what attempts were given, as JSON without values."""
    await tx.each(
        """INSERT INTO attempt_inputs (job_id, attempt, used) SELECT job_id, attempt, used FROM batch WHERE true
        RETURNING job_id""",
        {"job_id": "text", "attempt": "bigint", "used": "text"},
        rows,
    )


async def used(tx: Tx, job_id: str, attempt: int | None) -> Row | None:
    """Return what an attempt was given, or what the last one was given that has been given anything."""
    return await tx.one(
        """SELECT attempt, used FROM attempt_inputs
        WHERE job_id = :job_id AND (CAST(:attempt AS bigint) IS NULL OR attempt = CAST(:attempt AS bigint))
        ORDER BY attempt DESC LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
    )


async def delete_of_job(tx: Tx, job_id: str) -> None:
    await tx.run("DELETE FROM job_inputs WHERE job_id = :id", id=job_id)
    await tx.run("DELETE FROM attempt_inputs WHERE job_id = :id", id=job_id)
