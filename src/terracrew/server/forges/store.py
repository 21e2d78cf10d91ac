"""Rows of connections to forges."""

from typing import LiteralString

from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments
from terracrew.server.forges.model import ForgeConnection

CONNECTIONS = Table("forge_connections", ForgeConnection, without=("group",))
SELECT: LiteralString = (
    f'SELECT {CONNECTIONS.columns}, groups.path AS "group" FROM forge_connections'
    " JOIN groups ON groups.id = forge_connections.group_id"
)
NOTED_SECONDS = 10.0
"""That something was delivered is written this often, for people to see."""
_FIXED = ("id", "organization_id", "group_id", "kind", "created_by", "created_at")
_CHANGEABLE: tuple[LiteralString, ...] = tuple(field for field in CONNECTIONS.fields if field not in _FIXED)
_UPDATE: LiteralString = f"UPDATE forge_connections SET {assignments(*_CHANGEABLE)} WHERE id = :id"


async def insert(tx: Tx, connection: ForgeConnection) -> None:
    await tx.run(CONNECTIONS.insert(), **to_params(connection, *CONNECTIONS.fields))


async def get(tx: Tx, connection_id: str) -> ForgeConnection:
    found = await find(tx, connection_id)
    if found is None:
        raise missing(connection_id)
    return found


async def find(tx: Tx, connection_id: str) -> ForgeConnection | None:
    row = await tx.one(SELECT + " WHERE forge_connections.id = :id", id=connection_id)
    return None if row is None else row_to(ForgeConnection, row)


async def at(tx: Tx, organization_id: str, group: str, name: str) -> ForgeConnection | None:
    """Return the connection of this name in the group with this path."""
    row = await tx.one(
        SELECT + " WHERE groups.organization_id = :organization_id AND groups.path = :path"
        " AND forge_connections.name = :name",
        organization_id=organization_id,
        path=group,
        name=name,
    )
    return None if row is None else row_to(ForgeConnection, row)


async def get_many(tx: Tx, *connection_ids: str) -> dict[str, ForgeConnection]:
    rows = await tx.each_id(
        f'SELECT {CONNECTIONS.columns}, groups.path AS "group" FROM batch'
        " JOIN forge_connections ON forge_connections.id = batch.id"
        " JOIN groups ON groups.id = forge_connections.group_id",
        sorted(set(connection_ids)),
    )
    return {each.id: each for each in rows_to(ForgeConnection, rows)}


async def everything(tx: Tx) -> list[ForgeConnection]:
    """Return the connections of all organizations."""
    return rows_to(ForgeConnection, await tx.all(SELECT + " ORDER BY forge_connections.id"))


async def of_organization(tx: Tx, organization_id: str) -> list[ForgeConnection]:
    rows = await tx.all(
        SELECT + " WHERE forge_connections.organization_id = :id ORDER BY forge_connections.id", id=organization_id
    )
    return rows_to(ForgeConnection, rows)


async def hold(tx: Tx, connection_id: str) -> ForgeConnection | None:
    """Read a connection, and lock its row until the transaction ends."""
    await tx.one("SELECT id FROM forge_connections WHERE id = :id FOR UPDATE", id=connection_id)
    return await find(tx, connection_id)


async def count(tx: Tx, organization_id: str) -> int:
    return await tx.value(
        "SELECT count(*) AS found FROM forge_connections WHERE organization_id = :id", id=organization_id
    )


async def save(tx: Tx, before: ForgeConnection, after: ForgeConnection) -> None:
    """Write a connection that the transaction holds."""
    if before != after:
        await tx.run(_UPDATE, id=after.id, **to_params(after, *_CHANGEABLE))


async def note_delivery(tx: Tx, connection_id: str, *, is_good: bool) -> None:
    """Write when something was last delivered."""
    column: LiteralString = "delivered_at" if is_good else "wrong_delivery_at"
    changed = await tx.run(
        f"UPDATE forge_connections SET {column} = :now WHERE id = :id AND ({column} IS NULL OR {column} < :before)",
        id=connection_id,
        now=tx.now,
        before=tx.now - NOTED_SECONDS,
    )
    if changed:
        tx.wake("forges", connection_id)


async def delete(tx: Tx, connection_id: str) -> None:
    """Delete a connection, with its repositories and everything that is known of them."""
    await tx.run("DELETE FROM forge_connections WHERE id = :id", id=connection_id)


def missing(reference: str) -> NotFound:
    return NotFound(f"there is no connection to a forge {reference[:200]!r} here, or you may not see it")
