"""The rows of inputs that jobs were given for themselves, and of what each attempt was given, without values."""

from collections.abc import Iterable, Sequence

import msgspec

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to


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


class MaskedSources(msgspec.Struct, frozen=True):
    """Where a job may have values that are masked. Most modules have few of these."""

    has_inputs: bool
    """Whether an input is set at its module or at a group above it."""
    has_own: bool
    """Whether it was given something for itself."""
    has_outputs: bool
    """Whether its module has outputs."""
    has_key: bool
    """Whether its module has a key."""


NOTHING_MASKED = MaskedSources(has_inputs=False, has_own=False, has_outputs=False, has_key=False)


async def masked_sources(tx: Tx, jobs: Iterable[tuple[str, str]]) -> dict[str, MaskedSources]:
    """Return where jobs may have values that are masked, by job, with one statement. Each job is given with its module."""
    rows = await tx.each(
        """WITH RECURSIVE above (module_id, place_id, parent_id) AS (
            SELECT modules.id, modules.id, modules.group_id FROM modules
            WHERE modules.id IN (SELECT batch.module_id FROM batch)
            UNION ALL SELECT above.module_id, groups.id, groups.parent_id
            FROM above JOIN groups ON groups.id = above.parent_id)
        SELECT batch.job_id,
            EXISTS (SELECT 1 FROM above JOIN inputs ON inputs.place_id = above.place_id AND inputs.is_current
                WHERE above.module_id = batch.module_id) AS has_inputs,
            EXISTS (SELECT 1 FROM job_inputs WHERE job_inputs.job_id = batch.job_id) AS has_own,
            EXISTS (SELECT 1 FROM outputs WHERE outputs.module_id = batch.module_id) AS has_outputs,
            EXISTS (SELECT 1 FROM modules WHERE modules.id = batch.module_id AND modules.sealed_key IS NOT NULL) AS has_key
        FROM batch""",
        {"module_id": "text", "job_id": "text"},
        sorted(set(jobs)),
    )
    return {row["job_id"]: row_to(MaskedSources, row) for row in rows}


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
