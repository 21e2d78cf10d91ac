"""Reads the places that a runner is assigned to, and how it ranks there among the other runners.

A job goes to the runners of the nearest place that has any. So the runners that are assigned to the same place share its jobs,
and the runners of a place below it come first there.
"""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx

_FIRST: LiteralString = """
SELECT own.place_id, own.kind, own.path, own.organization_id,
    (SELECT count(*) FROM assignments AS other
        WHERE other.place_id = own.place_id AND other.runner_id <> own.runner_id) AS companions
FROM assignments AS own JOIN runners ON runners.id = own.runner_id
WHERE own.runner_id = :id ORDER BY own.kind, own.path LIMIT :count"""
_NEARER: LiteralString = """
SELECT DISTINCT assignments.path FROM assignments JOIN runners ON runners.id = assignments.runner_id
WHERE assignments.organization_id = :organization_id AND assignments.runner_id <> :id
    AND (CAST(:path AS text) = '' AND assignments.path <> ''
        OR substr(assignments.path, 1, length(CAST(:path AS text)) + 1) = CAST(:path AS text) || '/')
LIMIT :count"""
MAX_NEARER_PLACES = 3
"""How many places with nearer runners are looked for; a reader is told the names of one less."""
_MAX_RANKED_GROUPS = 5
"""For how many of its groups nearer places are looked for: each search may read all assignments of the organization."""


async def first(tx: Tx, runner_id: str, count: int) -> list[Row]:
    """Return the first places of a runner, groups before modules, each with the paths of nearer places of other runners."""
    rows = await tx.all(_FIRST, id=runner_id, count=count)
    groups = [row for row in rows if row["kind"] == "group"][:_MAX_RANKED_GROUPS]
    nearer = {row["place_id"]: await _nearer(tx, runner_id, row) for row in groups}
    return [{**row, "nearer": nearer.get(row["place_id"], [])} for row in rows]


async def _nearer(tx: Tx, runner_id: str, place: Row) -> list[str]:
    rows = await tx.all(
        _NEARER,
        id=runner_id,
        organization_id=place["organization_id"],
        path=place["path"],
        count=MAX_NEARER_PLACES,
    )
    return sorted(row["path"] for row in rows)


async def count(tx: Tx, runner_id: str) -> int:
    """Return how many places a runner is assigned to."""
    row = await tx.one(
        "SELECT count(*) AS places FROM assignments JOIN runners ON runners.id = assignments.runner_id"
        " WHERE runners.id = :id",
        id=runner_id,
    )
    return row["places"] if row else 0
