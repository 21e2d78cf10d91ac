"""Reads the graph of modules: whose outputs a module uses, and which modules use its outputs."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.tree.inputs.reads import HAS_OLDER_OUTPUTS, IS_WAITED_FOR, holds_jobs, is_ended

_IS_REFERENCE: LiteralString = "inputs.is_current AND inputs.source_module_id IS NOT NULL"
_COLUMNS: LiteralString = f"""inputs.id, inputs.target, inputs.name, inputs.source_output, inputs.set_by_name, inputs.set_at,
    inputs.ended_by_name, CASE WHEN {is_ended(":now")} THEN 1 ELSE 0 END AS is_ended,
    CASE WHEN {IS_WAITED_FOR} THEN 1 ELSE 0 END AS is_waited_for,
    CASE WHEN {HAS_OLDER_OUTPUTS} THEN 1 ELSE 0 END AS has_older_outputs"""
_USED_BY: LiteralString = f""" SELECT {_COLUMNS}, other.id AS other_id, other.path AS other_path,
    other.organization_id AS other_organization_id, other.triggers
FROM inputs JOIN modules AS other ON other.id = inputs.place_id
WHERE inputs.source_module_id = :module_id AND {_IS_REFERENCE} AND inputs.id > :after"""
_IN_ORDER: LiteralString = " ORDER BY inputs.id LIMIT :count"


async def needs(tx: Tx, module_id: str) -> list[Row]:
    """Return the inputs of a module that are outputs of others, with those modules. The columns of a deleted one are null."""
    return await tx.all(
        f"""SELECT {_COLUMNS}, other.id AS other_id, other.path AS other_path, other.organization_id AS other_organization_id
        FROM inputs LEFT JOIN modules AS other ON other.id = inputs.source_module_id AND other.path <> other.id
        WHERE inputs.place_id = :module_id AND {_IS_REFERENCE} ORDER BY inputs.id""",
        module_id=module_id,
        now=tx.now,
    )


async def missing_outputs(tx: Tx, module_ids: Sequence[str]) -> dict[str, str]:
    """Return those of these modules that use an output which does not exist, or is not given any more, each with the path of the
    module that it is to come from."""
    rows = await tx.each(
        f"""SELECT batch.id, source.path FROM batch JOIN inputs ON inputs.place_id = batch.id
        JOIN modules AS source ON source.id = inputs.source_module_id WHERE {holds_jobs("batch.now", "1 = 0")}""",
        {"id": "text", "now": "double precision"},
        [(module_id, tx.now) for module_id in module_ids],
    )
    return {row["id"]: row["path"] for row in rows}


async def used_by(tx: Tx, module_id: str, seen: Visible | None, after: str, count: int) -> list[Row]:
    """Return the inputs that are outputs of a module, with the modules that have them, as far as the reader may see these; without a
    reader, all of them."""
    given: dict[str, Param] = {"module_id": module_id, "after": after, "count": count, "now": tx.now}
    if seen is None:
        return await tx.all(_USED_BY + _IN_ORDER, **given)
    if seen.is_nothing:
        return []
    filtered = visibility.SEEN_MODULES + _USED_BY + " AND inputs.place_id IN (SELECT id FROM seen_modules)"
    return await tx.all(filtered + _IN_ORDER, **given, **visibility.params(seen))


async def users(tx: Tx, module_id: str, count: int) -> list[Row]:
    """Return the modules that use outputs of a module, ordered by path. A use that was ended does not count."""
    return await tx.all(
        f"""SELECT DISTINCT other.path, other.organization_id FROM inputs JOIN modules AS other ON other.id = inputs.place_id
        WHERE inputs.source_module_id = :module_id AND {_IS_REFERENCE} AND inputs.ended_by_name IS NULL
        ORDER BY other.path LIMIT :count""",
        module_id=module_id,
        count=count,
    )


async def references(tx: Tx, module_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return which of these modules use outputs of which modules."""
    rows = await tx.each_id(
        """SELECT DISTINCT inputs.place_id, inputs.source_module_id FROM batch JOIN inputs ON inputs.place_id = batch.id
        WHERE inputs.is_current AND inputs.source_module_id IS NOT NULL""",
        sorted(module_ids),
    )
    return [(row["place_id"], row["source_module_id"]) for row in rows]
