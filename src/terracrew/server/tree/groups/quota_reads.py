"""Reads how much each organization has: queued jobs, and the bytes of its archives, logs and states."""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx

_LOGS: LiteralString = """SELECT organization_id, CAST(sum(bytes) AS bigint) AS bytes FROM (
    SELECT jobs.organization_id, log_objects.stored_bytes AS bytes FROM log_objects JOIN jobs ON jobs.id = log_objects.job_id
    UNION ALL
    SELECT jobs.organization_id, length(log_chunks.data) FROM log_chunks JOIN jobs ON jobs.id = log_chunks.job_id
) AS found GROUP BY organization_id"""


async def queued_jobs(tx: Tx, organization_id: str) -> int:
    return await tx.value(
        """SELECT count(*) AS count FROM organizations JOIN jobs ON jobs.organization_id = organizations.id
        WHERE organizations.id = :id AND jobs.status = 'QUEUED'""",
        id=organization_id,
    )


async def archive_bytes(tx: Tx, organization_id: str) -> int:
    return await tx.value(
        """SELECT CAST(coalesce(sum(archives.size), 0) AS bigint) AS bytes FROM organizations
        JOIN archives ON archives.organization_id = organizations.id WHERE organizations.id = :id""",
        id=organization_id,
    )


async def log_bytes(tx: Tx) -> dict[str, int]:
    """Return the bytes of the logs of each organization. This reads whole tables."""
    return {row["organization_id"]: row["bytes"] for row in await tx.all(_LOGS)}


async def by_organization(tx: Tx) -> list[Row]:
    """Return what each organization has, the one with the most bytes first. This reads whole tables."""
    return await tx.all(
        f"""SELECT organizations.name, coalesce(archived.bytes, 0) AS archive_bytes, coalesce(logged.bytes, 0) AS log_bytes,
            coalesce(stated.bytes, 0) AS state_bytes, coalesce(queued.count, 0) AS queued_jobs
        FROM organizations
        LEFT JOIN (SELECT organization_id, CAST(sum(size) AS bigint) AS bytes FROM archives GROUP BY organization_id) AS archived
            ON archived.organization_id = organizations.id
        LEFT JOIN ({_LOGS}) AS logged ON logged.organization_id = organizations.id
        LEFT JOIN (SELECT modules.organization_id, CAST(sum(states.size) AS bigint) AS bytes FROM states
            JOIN modules ON modules.id = states.module_id GROUP BY modules.organization_id) AS stated
            ON stated.organization_id = organizations.id
        LEFT JOIN (SELECT organization_id, count(*) AS count FROM jobs WHERE status = 'QUEUED' GROUP BY organization_id) AS queued
            ON queued.organization_id = organizations.id
        WHERE archived.bytes IS NOT NULL OR logged.bytes IS NOT NULL OR stated.bytes IS NOT NULL OR queued.count IS NOT NULL
        ORDER BY coalesce(archived.bytes, 0) + coalesce(logged.bytes, 0) + coalesce(stated.bytes, 0) DESC, organizations.name"""
    )
