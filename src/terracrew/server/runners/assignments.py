"""Which places of the tree may use a runner."""

from typing import LiteralString

from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.db.mapping import rows_to
from terracrew.server.db.seam import Tx
from terracrew.server.runners.model import Assignment, PlaceKind, Runner
from terracrew.server.tree_path import is_within


async def assign(tx: Tx, runner: Runner, place_id: str, kind: PlaceKind, organization_id: str, path: str) -> bool:
    """Let a place use the runner; false if it already could. A runner serves nothing outside its own group."""
    if runner.is_shared:
        raise Conflict(f"`{runner.path}` is shared: it serves every module and takes no assignments")
    if organization_id != runner.organization_id:
        raise NotFound(f"there is no {kind} `{path}` here, or you may not see it")
    own = runner.group or ""
    if not is_within(path, own):
        raise Invalid(f"{kind} `{path}` is outside of `{own}`: a runner can only be assigned inside its own group")
    done = await tx.run(
        """INSERT INTO assignments (runner_id, place_id, kind, organization_id, path, created_at)
           VALUES (:runner_id, :place_id, :kind, :organization_id, :path, :now)
           ON CONFLICT (runner_id, place_id) DO NOTHING""",
        runner_id=runner.id,
        place_id=place_id,
        kind=kind,
        organization_id=organization_id,
        path=path,
        now=tx.now,
    )
    return done > 0


async def withdraw(tx: Tx, runner_id: str, place_id: str) -> bool:
    done = await tx.run(
        "DELETE FROM assignments WHERE runner_id = :runner_id AND place_id = :place_id",
        runner_id=runner_id,
        place_id=place_id,
    )
    return done > 0


async def of(tx: Tx, runner_id: str) -> list[Assignment]:
    return rows_to(
        Assignment, await tx.all("SELECT * FROM assignments WHERE runner_id = :id ORDER BY path", id=runner_id)
    )


async def forget(tx: Tx, place_id: str) -> None:
    """Take every runner away from a place that is being deleted."""
    sql: LiteralString = "DELETE FROM assignments WHERE place_id = :place_id RETURNING runner_id"
    for row in await tx.all(sql, place_id=place_id):
        tx.wake("runners", row["runner_id"])
        tx.wake("assignments", row["runner_id"])
