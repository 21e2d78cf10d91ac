"""The rows that SQL compares: the versions of engines that instances have, and the intervals of the ranges that modules want."""

from terracrew import version_ranges
from terracrew.server.db.seam import Tx
from terracrew.server.engines import ranges
from terracrew.server.engines.model import AvailableEngines

ON_DEMAND = ""
"""Stands for the version in the row of an engine of which an instance installs missing versions."""


async def set_available(tx: Tx, instance_id: str, have: AvailableEngines) -> None:
    """Write the engines that an instance has just announced."""
    await tx.run("DELETE FROM instance_engines WHERE instance_id = :instance_id", instance_id=instance_id)
    rows = {
        (name, str(version_ranges.parse_version(text) or text)): ranges.position_of(text)
        for name, texts in have.versions
        for text in texts
    } | {(name, ON_DEMAND): ranges.PRERELEASE_KEY for name in have.installable}
    await tx.each(
        """INSERT INTO instance_engines (instance_id, engine, version, position)
        SELECT instance_id, engine, version, position FROM batch WHERE true RETURNING version""",
        {"instance_id": "text", "engine": "text", "version": "text", "position": "bigint"},
        [(instance_id, name, version, position) for (name, version), position in sorted(rows.items())],
    )


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
            for each in ranges.intervals(engine, wanted)
        ],
    )
