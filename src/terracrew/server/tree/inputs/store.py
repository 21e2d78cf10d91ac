"""The rows of inputs: each version of each input at each place."""

from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.tree.inputs.model import Input

INPUTS = Table("inputs", Input)
_OF_NAME: LiteralString = "place_id = :place_id AND target = :target AND name = :name"


async def current(tx: Tx, place_id: str, target: str, name: str) -> Input | None:
    """Return the newest version of an input, which may stand for its removal."""
    return await INPUTS.one(
        tx, f"FROM inputs WHERE {_OF_NAME} AND is_current", place_id=place_id, target=target, name=name
    )


async def at_place(tx: Tx, place_id: str) -> list[Input]:
    """Return the newest version of every input at a place, removals included."""
    return await INPUTS.all(
        tx, "FROM inputs WHERE place_id = :place_id AND is_current ORDER BY target, name", place_id=place_id
    )


async def insert(tx: Tx, new: Input) -> None:
    """Make a version the newest one of its input."""
    await tx.run(
        f"UPDATE inputs SET is_current = false WHERE {_OF_NAME} AND is_current",
        place_id=new.place_id,
        target=new.target,
        name=new.name,
    )
    await tx.run(INPUTS.insert(), **to_params(new))


async def end(tx: Tx, input_id: str, by_name: str) -> None:
    """Record that an owner of the source module has ended a reference."""
    await tx.run("UPDATE inputs SET ended_by_name = :by_name WHERE id = :id", id=input_id, by_name=by_name)


async def reference(tx: Tx, source_module_id: str, input_id: str) -> Input | None:
    """Return an input that is an output of this module now."""
    return await INPUTS.one(
        tx,
        "FROM inputs WHERE id = :id AND source_module_id = :source_module_id AND is_current",
        id=input_id,
        source_module_id=source_module_id,
    )


async def reseal(tx: Tx, each: Input, sealed: bytes) -> None:
    """Replace the content of a version of an input."""
    await tx.run(
        "UPDATE inputs SET sealed = :sealed, size = :size WHERE id = :id", id=each.id, sealed=sealed, size=len(sealed)
    )


async def erase(tx: Tx, place_id: str, target: str, name: str) -> None:
    """Delete the values of all versions of an input. The versions themselves stay."""
    await tx.run(
        f"UPDATE inputs SET sealed = NULL, size = 0 WHERE {_OF_NAME}", place_id=place_id, target=target, name=name
    )


async def delete_versions(tx: Tx, place_id: str, target: str, name: str, up_to: int) -> None:
    """Delete the versions of an input up to this one."""
    await tx.run(
        f"DELETE FROM inputs WHERE {_OF_NAME} AND version <= :up_to",
        place_id=place_id,
        target=target,
        name=name,
        up_to=up_to,
    )


async def delete_removals(tx: Tx, place_id: str, kept: int) -> None:
    """Delete everything about the inputs of a place that were removed first, except the `kept` last ones."""
    await tx.run(
        """DELETE FROM inputs WHERE place_id = :place_id AND (target, name) IN (
            SELECT target, name FROM inputs WHERE place_id = :place_id AND is_current AND sealed IS NULL
            ORDER BY set_at DESC, id DESC LIMIT 1000 OFFSET :kept)""",
        place_id=place_id,
        kept=kept,
    )


async def forget(tx: Tx, place_id: str) -> None:
    """Delete the inputs of a place that is deleted."""
    await tx.run("DELETE FROM inputs WHERE place_id = :place_id", place_id=place_id)
