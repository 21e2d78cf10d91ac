"""Rows of retention: names of objects that wait for their deletion, and when each chore last ended."""

from collections.abc import Sequence

from terracrew.server.db.seam import Columns, Row, Tx

_NAMES: Columns = {"name": "text"}


async def delete_later(tx: Tx, names: Sequence[str]) -> None:
    """Record objects that have to be deleted."""
    rows = [(name, tx.now) for name in sorted(names)]
    await tx.each(
        """INSERT INTO object_deletions (name, requested_at) SELECT name, requested_at FROM batch WHERE true
        ON CONFLICT DO NOTHING""",
        {"name": "text", "requested_at": "double precision"},
        rows,
    )


async def due_deletions(tx: Tx, before: float, count: int) -> list[str]:
    """Return the objects whose deletion was requested before this time, the oldest requests first."""
    rows = await tx.all(
        "SELECT name FROM object_deletions WHERE requested_at <= :before ORDER BY requested_at LIMIT :page",
        before=before,
        page=count,
    )
    return [row["name"] for row in rows]


async def remove_deletions(tx: Tx, names: Sequence[str]) -> None:
    """Forget objects that have been deleted."""
    await tx.each(
        "DELETE FROM object_deletions WHERE name IN (SELECT name FROM batch)",
        _NAMES,
        [(name,) for name in sorted(names)],
    )


async def waiting_deletions(tx: Tx, names: Sequence[str]) -> set[str]:
    """Return the objects among these that wait for their deletion."""
    rows = await tx.each(
        "SELECT object_deletions.name FROM batch JOIN object_deletions ON object_deletions.name = batch.name",
        _NAMES,
        [(name,) for name in sorted(names)],
    )
    return {row["name"] for row in rows}


async def record_run(tx: Tx, name: str, removed: str) -> None:
    """Record that a chore has ended, and what it removed, as JSON."""
    await tx.run(
        """INSERT INTO retention_runs (name, finished_at, removed) VALUES (:name, :now, :removed)
        ON CONFLICT (name) DO UPDATE SET finished_at = excluded.finished_at, removed = excluded.removed""",
        name=name,
        now=tx.now,
        removed=removed,
    )


async def last_runs(tx: Tx) -> list[Row]:
    """Return when each chore last ended, and what it removed."""
    return await tx.all("SELECT name, finished_at, removed FROM retention_runs ORDER BY name")


async def has_swept_since(tx: Tx, since: float) -> bool:
    row = await tx.one(
        "SELECT name FROM retention_runs WHERE name = 'sweep' AND finished_at > :since",
        since=since,
    )
    return row is not None
