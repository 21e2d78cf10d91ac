"""Which runners a module may use, in tiers: the module's own assignments, then its group's, and so on up, then shared ones."""

from typing import LiteralString, TypeAlias

from terracrew.server.db.seam import Tx

Tiers: TypeAlias = tuple[tuple[str, ...], ...]

COVERS: LiteralString = """(assignments.place_id = modules.id OR assignments.kind = 'group' AND (assignments.path = ''
    OR substr(modules.path, 1, length(assignments.path) + 1) = assignments.path || '/'))"""
"""Whether an assignment covers a module."""
MAKER: LiteralString = """plans
    JOIN attempts AS made ON made.job_id = plans.job_id AND made.number = plans.attempt
    JOIN runners AS maker ON maker.id = made.runner_id AND NOT maker.is_disabled
    JOIN modules AS own ON own.state_version = plans.state_version AND (own.runner_id IS NULL OR own.runner_id = maker.id)"""
"""The runner that made the plan which a job goes on with: no other may have it while that plan can be used there."""
OF_JOB: LiteralString = "plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt AND own.id = jobs.module_id"
"""Joins `MAKER` to the job."""


async def tiers(tx: Tx, organization_id: str, module_id: str, module_path: str, runner_id: str | None) -> Tiers:
    """The places that cover the module, nearest first, each with the runners assigned there (only the named one, if one is)."""
    above = await of_group(tx, organization_id, module_path.rpartition("/")[0])
    return joined(await of_module(tx, module_id), above, runner_id)


async def of_module(tx: Tx, module_id: str) -> tuple[str, ...]:
    """The runners that are assigned to the module itself."""
    rows = await tx.all("SELECT runner_id FROM assignments WHERE place_id = :id ORDER BY runner_id", id=module_id)
    return tuple(row["runner_id"] for row in rows)


async def of_group(tx: Tx, organization_id: str, group_path: str) -> Tiers:
    """What every module of a group has: those of the group, of the groups above it, and the shared ones."""
    rows = await tx.all(
        """SELECT runner_id AS id, length(path) AS nearness FROM assignments
        WHERE organization_id = :organization_id AND kind = 'group'
          AND (path = '' OR substr(CAST(:path AS text) || '/', 1, length(path) + 1) = path || '/')
        UNION ALL
        SELECT id, -1 AS nearness FROM runners WHERE organization_id IS NULL
        ORDER BY nearness DESC, id""",
        organization_id=organization_id, path=group_path,
    )  # fmt: skip
    found: dict[int, list[str]] = {}
    seen: set[str] = set()
    for row in rows:
        if row["id"] not in seen:
            seen.add(row["id"])
            found.setdefault(row["nearness"], []).append(row["id"])
    return tuple(tuple(runners) for runners in found.values())


def joined(own: tuple[str, ...], above: Tiers, runner_id: str | None) -> Tiers:
    """Where a module has nothing of its own, what it returns is what its group has and not a copy: there may be thousands."""
    if runner_id is not None:
        return ((runner_id,),) if runner_id in own or any(runner_id in tier for tier in above) else ()
    if not own:
        return above
    rest = (tuple(runner for runner in tier if runner not in own) for tier in above)
    return (own, *(tier for tier in rest if tier))
