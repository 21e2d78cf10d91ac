"""Rows that say who may have acted as a service account: everybody who ever made a secret of it."""

from terracrew.server.db.seam import Tx


async def add(tx: Tx, account_id: str, holder_id: str, organization_id: str) -> None:
    """Note that somebody has made, and so has seen, a secret of a service account. Nothing removes this but the organization."""
    await tx.run(
        """INSERT INTO service_account_holders (service_account_id, holder_id, organization_id)
        VALUES (:account_id, :holder_id, :organization_id) ON CONFLICT (service_account_id, holder_id) DO NOTHING""",
        account_id=account_id,
        holder_id=holder_id,
        organization_id=organization_id,
    )


async def identities(tx: Tx, actor_id: str) -> frozenset[str]:
    """Return the ids of everybody who may have acted as this user or service account, and its own id.

    A service account may have made the secret of another one, so the holders of the first one are holders of the second, too.
    """
    rows = await tx.all(
        """WITH RECURSIVE held (id) AS (SELECT CAST(:id AS text) UNION
            SELECT service_account_holders.holder_id FROM service_account_holders
            JOIN held ON held.id = service_account_holders.service_account_id)
        SELECT id FROM held""",
        id=actor_id,
    )
    return frozenset(row["id"] for row in rows)
