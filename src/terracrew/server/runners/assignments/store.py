"""Rows of assignments: a runner, and a place of the tree that may use it."""

from typing import LiteralString

from terracrew.api.place_settings import PlaceKind
from terracrew.api.runners import Assignment
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table

ASSIGNMENTS = Table("assignments", Assignment)
_INSERT = ASSIGNMENTS.insert("organization_id") + " ON CONFLICT (runner_id, place_id) DO NOTHING"
_PAGE: LiteralString = """
SELECT runner_id, place_id, kind, organization_id, path FROM assignments
WHERE (runner_id, place_id) > (:runner_id, :place_id)
ORDER BY runner_id, place_id LIMIT :count"""
_OF_RUNNER: LiteralString = """
SELECT runner_id, place_id, kind, organization_id, path FROM assignments WHERE runner_id = :id"""


async def insert(tx: Tx, runner_id: str, place_id: str, kind: PlaceKind, organization_id: str, path: str) -> bool:
    """Let a place use a runner. Returns False if it already could."""
    made = Assignment(runner_id, place_id, kind, path, tx.moment)
    done = await tx.run(_INSERT, **to_params(made), organization_id=organization_id)
    return done > 0


async def withdraw(tx: Tx, runner_id: str, place_id: str) -> bool:
    done = await tx.run(
        "DELETE FROM assignments WHERE runner_id = :runner_id AND place_id = :place_id",
        runner_id=runner_id,
        place_id=place_id,
    )
    return done > 0


async def of(tx: Tx, runner_id: str) -> list[Assignment]:
    return await ASSIGNMENTS.all(tx, "FROM assignments WHERE runner_id = :id ORDER BY path", id=runner_id)


async def page(tx: Tx, runner_id: str, place_id: str, count: int) -> list[Row]:
    """Return the next assignments of all runners after the one of this runner and place."""
    return await tx.all(_PAGE, runner_id=runner_id, place_id=place_id, count=count)


async def places(tx: Tx, runner_id: str) -> list[Row]:
    """Return the places that a runner is assigned to, in no particular order."""
    return await tx.all(_OF_RUNNER, id=runner_id)


async def move(tx: Tx, place_id: str, path: str) -> None:
    """Note the new path of a place. Its runners stay."""
    sql: LiteralString = "UPDATE assignments SET path = :path WHERE place_id = :place_id RETURNING runner_id"
    for row in await tx.all(sql, place_id=place_id, path=path):
        tx.wake("runners", row["runner_id"])
        tx.wake("assignments", row["runner_id"])


async def forget(tx: Tx, place_id: str) -> None:
    """Take every runner away from a place that is being deleted."""
    sql: LiteralString = "DELETE FROM assignments WHERE place_id = :place_id RETURNING runner_id"
    for row in await tx.all(sql, place_id=place_id):
        tx.wake("runners", row["runner_id"])
        tx.wake("assignments", row["runner_id"])
