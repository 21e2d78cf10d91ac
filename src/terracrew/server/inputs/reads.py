"""Reads the inputs that apply to a place: its own, and those of all groups above it."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.inputs.model import Input, PlacedInput
from terracrew.server.inputs.store import INPUTS

_UP: LiteralString = """
    UNION ALL SELECT above.start_id, groups.id, groups.parent_id, groups.path, above.level + 1
    FROM above JOIN groups ON groups.id = above.parent_id)"""
_PLACED: LiteralString = f"""
SELECT above.start_id, above.path, above.level, {INPUTS.columns}
FROM above JOIN inputs ON inputs.place_id = above.place_id AND inputs.is_current"""
_ABOVE: LiteralString = "WITH RECURSIVE above (start_id, place_id, parent_id, path, level) AS ("
_OF_MODULES: LiteralString = f"""{_ABOVE}
    SELECT modules.id, modules.id, modules.group_id, modules.path, 0 FROM batch JOIN modules ON modules.id = batch.id
{_UP}{_PLACED}"""
_OF_GROUP: LiteralString = f"""{_ABOVE}
    SELECT groups.id, groups.id, groups.parent_id, groups.path, 0 FROM groups WHERE groups.id = :id
{_UP}{_PLACED}"""


async def of_modules(tx: Tx, module_ids: Sequence[str]) -> dict[str, list[PlacedInput]]:
    """Return the inputs that are set at each of these modules and at the groups above it, removals included."""
    rows = await tx.each(_OF_MODULES, {"id": "text"}, [(each,) for each in sorted(set(module_ids))])
    found: dict[str, list[PlacedInput]] = {}
    for row in rows:
        found.setdefault(row["start_id"], []).append(row_to(PlacedInput, row))
    return found


async def of_group(tx: Tx, group_id: str) -> list[PlacedInput]:
    """Return the inputs that are set at a group and at the groups above it, removals included."""
    return rows_to(PlacedInput, await tx.all(_OF_GROUP, id=group_id))


async def secret_versions(tx: Tx, inputs: Sequence[Input]) -> list[Input]:
    """Return the kept versions of these secrets, the newest included."""
    rows = await tx.each(
        f"""SELECT {INPUTS.columns} FROM batch JOIN inputs ON inputs.place_id = batch.place_id
            AND inputs.target = batch.target AND inputs.name = batch.name
        WHERE inputs.kind = 'secret' AND inputs.sealed IS NOT NULL""",
        {"place_id": "text", "target": "text", "name": "text"},
        [(each.place_id, each.target, each.name) for each in inputs],
    )
    return rows_to(Input, rows)
