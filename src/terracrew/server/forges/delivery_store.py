"""Rows of what forges have delivered."""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import rows_to, to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.forges.model import ForgeDelivery

DELIVERIES = Table("forge_deliveries", ForgeDelivery)
_CLAIM: LiteralString = f"""UPDATE forge_deliveries SET try_at = :until, tries = tries + 1
WHERE handled_at IS NULL AND try_at <= :now AND id IN (
    SELECT forge_deliveries.id FROM forge_deliveries
    JOIN forge_connections ON forge_connections.id = forge_deliveries.connection_id
    WHERE forge_deliveries.handled_at IS NULL AND forge_deliveries.try_at <= :now
        AND (forge_connections.away_until IS NULL OR forge_connections.away_until <= :now)
    ORDER BY forge_deliveries.try_at LIMIT :limit)
RETURNING {DELIVERIES.columns}"""


async def insert(tx: Tx, delivery: ForgeDelivery) -> bool:
    """Store a delivery. Returns False if it came before."""
    changed = await tx.run(
        DELIVERIES.insert() + " ON CONFLICT (connection_id, delivery_id) DO NOTHING", **to_params(delivery)
    )
    return changed > 0


async def find(tx: Tx, connection_id: str, delivery_id: str) -> ForgeDelivery | None:
    """Return a delivery of a connection by our own id."""
    return await DELIVERIES.find(tx, connection_id=connection_id, id=delivery_id)


async def of_connection(tx: Tx, connection_id: str, before: str, limit: int) -> list[ForgeDelivery]:
    """Return deliveries, the newest first."""
    return await DELIVERIES.all(
        tx,
        "FROM forge_deliveries WHERE connection_id = :id AND (CAST(:before AS text) = '' OR id < :before)"
        " ORDER BY id DESC LIMIT :limit",
        id=connection_id,
        before=before,
        limit=limit,
    )


async def claim_due(tx: Tx, seconds: float, limit: int) -> list[ForgeDelivery]:
    """Claim deliveries whose turn has come. If this server does not finish them in time, another one takes them."""
    rows = await tx.all(_CLAIM, until=tx.now + seconds, now=tx.now, limit=limit)
    return sorted(rows_to(ForgeDelivery, rows), key=lambda each: each.id)


async def finish(tx: Tx, problems: Mapping[str, str]) -> None:
    """Write that deliveries were handled, by their ids, and what stood in the way of each; nothing, if it is empty."""
    await tx.each(
        """UPDATE forge_deliveries SET handled_at = batch.now, try_at = NULL, problem = batch.problem FROM batch
        WHERE forge_deliveries.id = batch.id AND forge_deliveries.handled_at IS NULL""",
        {"id": "text", "now": "double precision", "problem": "text"},
        [(each, tx.now, problems[each]) for each in sorted(problems)],
    )


async def put_off(tx: Tx, delivery_ids: Sequence[str], seconds: float, problem: str) -> None:
    """Write that deliveries could not be handled yet, why, and when they are tried again."""
    await tx.each(
        """UPDATE forge_deliveries SET try_at = batch.try_at, problem = batch.problem FROM batch
        WHERE forge_deliveries.id = batch.id AND forge_deliveries.handled_at IS NULL""",
        {"id": "text", "try_at": "double precision", "problem": "text"},
        [(each, tx.now + seconds, problem) for each in sorted(delivery_ids)],
    )


async def handle_again(tx: Tx, delivery_id: str) -> None:
    await tx.run(
        "UPDATE forge_deliveries SET handled_at = NULL, problem = '', tries = 0, try_at = :now WHERE id = :id",
        id=delivery_id,
        now=tx.now,
    )


async def count_waiting(tx: Tx, connection_id: str, limit: int) -> int | None:
    """Return how many deliveries of a connection wait, up to a limit; None if there is no such connection any more."""
    return await tx.value(
        """SELECT (SELECT count(*) FROM (SELECT 1 AS one FROM forge_deliveries
            WHERE connection_id = :id AND handled_at IS NULL LIMIT :limit) AS waiting) AS found
        FROM forge_connections WHERE id = :id""",
        id=connection_id,
        limit=limit,
    )


async def next_try(tx: Tx) -> float | None:
    """Return when the next delivery is to be handled; None if there is none."""
    return await tx.value(
        """SELECT min(CASE WHEN forge_connections.away_until > forge_deliveries.try_at
            THEN forge_connections.away_until ELSE forge_deliveries.try_at END) AS next FROM forge_deliveries
        JOIN forge_connections ON forge_connections.id = forge_deliveries.connection_id
        WHERE forge_deliveries.handled_at IS NULL"""
    )


async def prune(tx: Tx, before: float, count: int) -> int:
    """Delete deliveries that were handled before this time."""
    return await delete_some(tx, "forge_deliveries", "handled_at IS NOT NULL AND handled_at < :before", before, count)


async def prune_crowded(tx: Tx, keep: int, count: int) -> None:
    """Delete the oldest handled deliveries of connections that have more than so many: somebody can repeat one under other ids."""
    crowded = await tx.all(
        "SELECT connection_id AS id FROM forge_deliveries GROUP BY connection_id HAVING count(*) > :keep", keep=keep
    )
    for row in crowded:
        await tx.run(
            """DELETE FROM forge_deliveries WHERE id IN (SELECT id FROM forge_deliveries
                WHERE connection_id = :connection_id AND handled_at IS NOT NULL AND id < (SELECT id FROM forge_deliveries
                    WHERE connection_id = :connection_id ORDER BY id DESC LIMIT 1 OFFSET :keep) ORDER BY id LIMIT :count)""",
            connection_id=row["id"],
            keep=keep - 1,
            count=count,
        )
