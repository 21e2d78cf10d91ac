"""Reads how much is stored: counts and bytes of every table that grows, and what waits to be moved or deleted."""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx

_TOTALS: dict[str, LiteralString] = {
    "logs in rows": "SELECT count(*) AS count, sum(length(data)) AS bytes FROM log_chunks",
    "logs in objects": "SELECT count(*) AS count, sum(stored_bytes) AS bytes FROM log_objects",
    "states": "SELECT count(*) AS count, sum(size) AS bytes FROM states",
    "plans": "SELECT count(*) AS count, sum(size) AS bytes FROM plans WHERE is_kept",
    "archives": "SELECT count(*) AS count, sum(size) AS bytes FROM archives",
    "files of releases": "SELECT count(*) AS count, sum(size_bytes) AS bytes FROM release_artifacts WHERE object_name <> ''",
    "outputs": "SELECT count(*) AS count, sum(length(content)) AS bytes FROM outputs",
    "diffs of plans": "SELECT count(*) AS count, sum(length(content)) AS bytes FROM plan_diffs",
    "JSON of plans": "SELECT count(*) AS count, sum(length(content)) AS bytes FROM plan_json",
    "audit": "SELECT count(*) AS count, sum(length(details) + length(action) + length(target_id)) AS bytes FROM audit",
    "objects to be deleted": "SELECT count(*) AS count, 0 AS bytes FROM object_deletions",
}
_MODULES: LiteralString = """
SELECT modules.path, CAST(sum(found.bytes) AS bigint) AS bytes FROM (
    SELECT jobs.module_id, log_objects.stored_bytes AS bytes FROM log_objects JOIN jobs ON jobs.id = log_objects.job_id
    UNION ALL SELECT jobs.module_id, length(log_chunks.data) FROM log_chunks JOIN jobs ON jobs.id = log_chunks.job_id
    UNION ALL SELECT module_id, size FROM states
) AS found JOIN modules ON modules.id = found.module_id
GROUP BY modules.id, modules.path ORDER BY sum(found.bytes) DESC LIMIT :count"""
_NEWEST_OBJECTS: LiteralString = """
SELECT name FROM (SELECT 'archives/' || id AS name FROM archives ORDER BY id DESC LIMIT :count) AS newest_archives
UNION ALL SELECT object_name FROM (
    SELECT object_name FROM release_artifacts WHERE object_name <> '' ORDER BY object_name DESC LIMIT :count) AS newest_files
UNION ALL SELECT object FROM (
    SELECT object FROM states WHERE object IS NOT NULL ORDER BY id DESC LIMIT :count) AS newest_states
UNION ALL SELECT object FROM (SELECT object FROM log_objects ORDER BY job_id DESC LIMIT :count) AS newest_logs"""
_SIZE: dict[str, LiteralString] = {
    "sqlite": "SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()",
    "postgres": "SELECT pg_database_size(current_database()) AS bytes",
}
KINDS = tuple(_TOTALS)
"""The kinds of stored data that `total` knows."""


async def total(tx: Tx, kind: str) -> Row | None:
    """Count what is stored of a kind, and its bytes. This reads a whole table."""
    return await tx.one(_TOTALS[kind])


async def largest_modules(tx: Tx, count: int) -> list[Row]:
    """Return the modules with the most bytes of logs and states."""
    return await tx.all(_MODULES, count=count)


async def database_bytes(tx: Tx, kind: str) -> int:
    """Return the size of a database of this kind."""
    return await tx.value(_SIZE[kind])


async def newest_objects(tx: Tx, count: int) -> list[str]:
    """Return the names of the newest archives, files of releases, large states and moved logs, so many of each."""
    return [row["name"] for row in await tx.all(_NEWEST_OBJECTS, count=count)]


async def waiting(tx: Tx) -> Row | None:
    """Count the logs that wait to be moved and the objects that wait to be deleted, and return since when the oldest log waits."""
    return await tx.one(
        """SELECT (SELECT count(*) FROM attempts WHERE has_log_chunks AND ended_at IS NOT NULL) AS logs,
            (SELECT min(ended_at) FROM attempts WHERE has_log_chunks AND ended_at IS NOT NULL AND has_result
                AND NOT is_in_doubt) AS oldest,
            (SELECT count(*) FROM object_deletions) AS objects"""
    )
