"""Which runners a module may use, in tiers: the module's own assignments, then its group's, and so on up, then shared ones."""

from typing import TypeAlias

import msgspec

from terracrew.server.db.seam import Tx

Tiers: TypeAlias = tuple[tuple[str, ...], ...]


class Route(msgspec.Struct, frozen=True):
    """Jobs with equal routes wait in one line."""

    tiers: Tiers
    engine: str
    instance_name: str | None


async def tiers(tx: Tx, organization_id: str, module_id: str, module_path: str, runner_id: str | None) -> Tiers:
    """The places that cover the module, nearest first, each with the runners assigned there (only the named one, if one is)."""
    rows = await tx.all(
        """SELECT assignments.runner_id AS id,
            CASE WHEN assignments.kind = 'module' THEN 1000000 ELSE length(assignments.path) END AS nearness
        FROM assignments
        WHERE assignments.organization_id = :organization_id
          AND (assignments.place_id = :module_id OR assignments.kind = 'group' AND (assignments.path = ''
            OR substr(CAST(:module_path AS text), 1, length(assignments.path) + 1) = assignments.path || '/'))
        UNION ALL
        SELECT id, -1 AS nearness FROM runners WHERE organization_id IS NULL
        ORDER BY nearness DESC, id""",
        organization_id=organization_id, module_id=module_id, module_path=module_path,
    )  # fmt: skip
    found: dict[int, list[str]] = {}
    seen: set[str] = set()
    for row in rows:
        if row["id"] not in seen and runner_id in (None, row["id"]):
            seen.add(row["id"])
            found.setdefault(row["nearness"], []).append(row["id"])
    return tuple(tuple(runners) for runners in found.values())
