"""The rows that SQL compares: the versions of engines that instances have, and the intervals of the ranges that modules want."""

from collections.abc import Mapping
from functools import lru_cache

from terracrew.server.db.seam import Tx
from terracrew.server.engines import model
from terracrew.server.engines.model import AvailableEngines
from terracrew.source_rules import version_ranges

_MAX_KEPT_ROWS = 256
ON_DEMAND = ""
"""Stands for the version in the row of an engine of which an instance installs missing versions."""


async def set_available(tx: Tx, announced: Mapping[str, AvailableEngines]) -> None:
    """Write the engines that these instances have just announced."""
    instance_ids = sorted(announced)
    await tx.each_id("DELETE FROM instance_engines WHERE instance_id IN (SELECT id FROM batch)", instance_ids)
    await tx.each(
        """INSERT INTO instance_engines (instance_id, engine, version, position)
        SELECT instance_id, engine, version, position FROM batch WHERE true RETURNING version""",
        {"instance_id": "text", "engine": "text", "version": "text", "position": "bigint"},
        [(each, *row) for each in instance_ids for row in _rows(announced[each])],
    )


@lru_cache(maxsize=_MAX_KEPT_ROWS)
def _rows(have: AvailableEngines) -> tuple[tuple[str, str, int], ...]:
    """Return the engine, version and position of each row. Most instances of a fleet announce the same."""
    found = {
        (name, str(version_ranges.parse_version(text) or text)): model.position_of(text)
        for name, texts in have.versions
        for text in texts
    } | {(name, ON_DEMAND): model.PRERELEASE_KEY for name in have.installable}
    return tuple((*key, position) for key, position in sorted(found.items()))


async def is_announced(tx: Tx, organization_id: str, engine: str) -> bool:
    """Return whether an instance that serves this organization has announced an engine, or one of its modules has it already."""
    row = await tx.one(
        """SELECT 1 FROM modules WHERE modules.organization_id = :organization_id AND modules.engine = :engine
        UNION ALL SELECT 1 FROM instances JOIN runners ON runners.id = instances.runner_id
        WHERE (runners.organization_id = :organization_id OR runners.organization_id IS NULL)
            AND replace(instances.engines || instances.dispatchers || instances.installable_engines, '"' || :engine || '"', '')
                <> instances.engines || instances.dispatchers || instances.installable_engines
        LIMIT 1""",
        organization_id=organization_id,
        engine=engine,
    )
    return row is not None


async def announced(tx: Tx, organization_id: str) -> list[str]:
    """Return the engines that instances which serve this organization have announced."""
    rows = await tx.all(
        """SELECT DISTINCT have.engine FROM instance_engines AS have JOIN instances ON instances.id = have.instance_id
        JOIN runners ON runners.id = instances.runner_id
        WHERE runners.organization_id = :organization_id OR runners.organization_id IS NULL ORDER BY have.engine""",
        organization_id=organization_id,
    )
    return [row["engine"] for row in rows]


async def remember_range(tx: Tx, engine: str, wanted: str) -> None:
    """Write the intervals of a range, unless they are known. They follow from the text alone, so they never change."""
    await tx.each(
        """INSERT INTO engine_version_ranges (engine, wanted, low, high, version, installs)
        SELECT engine, wanted, low, high, version, installs FROM batch WHERE true
        ON CONFLICT (engine, wanted, low) DO NOTHING RETURNING low""",
        {
            "engine": "text",
            "wanted": "text",
            "low": "bigint",
            "high": "bigint",
            "version": "text",
            "installs": "text",
        },
        [
            (engine, wanted, each.low, each.high, each.version, each.installs)
            for each in model.intervals(engine, wanted)
        ],
    )
