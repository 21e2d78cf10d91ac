"""Deleting a module with everything that was kept for it."""

from typing import NamedTuple

from terracrew.server.db.seam import Tx


class Kept(NamedTuple):
    unfinished_jobs: int
    jobs: int
    states: int


async def kept(tx: Tx, module_id: str) -> Kept:
    row = await tx.one(
        """SELECT (SELECT count(*) FROM jobs WHERE module_id = :id AND finished_at IS NULL) AS unfinished,
                  (SELECT count(*) FROM jobs WHERE module_id = :id) AS jobs,
                  (SELECT count(*) FROM states WHERE module_id = :id) AS states""",
        id=module_id,
    )
    assert row is not None
    return Kept(row["unfinished"], row["jobs"], row["states"])


async def delete(tx: Tx, module_id: str) -> list[str]:
    """Delete its rows, its jobs' and its states', and return the objects to delete once that is committed."""
    objects = await tx.all(
        """SELECT object FROM states WHERE module_id = :id AND object IS NOT NULL UNION ALL
        SELECT object FROM outputs WHERE module_id = :id AND object IS NOT NULL UNION ALL
        SELECT object FROM log_objects WHERE job_id IN (SELECT id FROM jobs WHERE module_id = :id) UNION ALL
        SELECT 'plans/' || job_id || '/' || attempt || '/' || sha256 AS object FROM plans
        WHERE is_kept AND job_id IN (SELECT id FROM jobs WHERE module_id = :id)""",
        id=module_id,
    )
    for statement in (
        "DELETE FROM outputs WHERE module_id = :id",
        "DELETE FROM states WHERE module_id = :id",
        "DELETE FROM log_chunks WHERE job_id IN (SELECT id FROM jobs WHERE module_id = :id)",
        "DELETE FROM log_objects WHERE job_id IN (SELECT id FROM jobs WHERE module_id = :id)",
        "DELETE FROM plans WHERE job_id IN (SELECT id FROM jobs WHERE module_id = :id)",
        "DELETE FROM notes WHERE job_id IN (SELECT id FROM jobs WHERE module_id = :id)",
        "DELETE FROM steps WHERE job_id IN (SELECT id FROM jobs WHERE module_id = :id)",
        "DELETE FROM attempts WHERE job_id IN (SELECT id FROM jobs WHERE module_id = :id)",
        "DELETE FROM jobs WHERE module_id = :id",
        "DELETE FROM modules WHERE id = :id",
    ):
        await tx.run(statement, id=module_id)
    return [row["object"] for row in objects]
