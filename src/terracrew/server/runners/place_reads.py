"""Reads the places that a runner is assigned to, and how it ranks there among the other runners.

A job goes to the runners of the nearest place that has any. So the runners that are assigned to the same place share its jobs,
and the runners of a place below it come first there.
"""

from typing import LiteralString

from terracrew.server.db.seam import Row, Tx

_FIRST: LiteralString = """
SELECT own.place_id, own.kind, own.path,
    (SELECT count(*) FROM assignments AS other
        WHERE other.place_id = own.place_id AND other.runner_id <> own.runner_id) AS companions
FROM assignments AS own JOIN runners ON runners.id = own.runner_id
WHERE own.runner_id = :id ORDER BY own.kind, own.path LIMIT :count"""
_NEARER: LiteralString = """
SELECT own.place_id, count(DISTINCT other.place_id) AS nearer_places, min(other.path) AS nearer_path
FROM (SELECT place_id, path, organization_id, runner_id FROM assignments
        WHERE runner_id = :id AND kind = 'group' ORDER BY path LIMIT :count) AS own
JOIN assignments AS other ON other.organization_id = own.organization_id AND other.runner_id <> own.runner_id
    AND substr(other.path, 1, length(own.path) + 1) = own.path || '/' OR own.path = '' AND other.path <> ''
    AND other.organization_id = own.organization_id AND other.runner_id <> own.runner_id
JOIN runners ON runners.id = other.runner_id
GROUP BY own.place_id"""
MAX_RANKED_GROUPS = 10
"""For how many of its groups the places below them are compared: each comparison reads all assignments of the organization."""


async def first(tx: Tx, runner_id: str, count: int) -> list[Row]:
    """Return the first places of a runner, groups before modules, each with its rank there."""
    nearer = {row["place_id"]: row for row in await tx.all(_NEARER, id=runner_id, count=MAX_RANKED_GROUPS)}
    nobody: Row = {"nearer_places": 0, "nearer_path": ""}
    rows = await tx.all(_FIRST, id=runner_id, count=count)
    return [{**nobody, **nearer.get(row["place_id"], {}), **row} for row in rows]


async def count(tx: Tx, runner_id: str) -> int:
    """Return how many places a runner is assigned to."""
    row = await tx.one(
        "SELECT count(*) AS places FROM assignments JOIN runners ON runners.id = assignments.runner_id"
        " WHERE runners.id = :id",
        id=runner_id,
    )
    return row["places"] if row else 0
