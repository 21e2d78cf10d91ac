"""Rows of the keys that sign access tokens."""

from terracrew.server.db.seam import Row, Tx


async def verifying(tx: Tx, since: float) -> list[Row]:
    """Return the keys that sign, that will sign, or that were retired after this time."""
    return await tx.all(
        "SELECT * FROM signing_keys WHERE retired_at IS NULL OR retired_at > :since ORDER BY id",
        since=since,
    )


async def insert_first(tx: Tx, key_id: str, public_jwk: str, private_jwk: bytes) -> None:
    """Write the first key, which signs at once, unless another server has just done so."""
    await tx.run(
        "INSERT INTO signing_keys (id, public_jwk, private_jwk, is_active, created_at)"
        " VALUES (:id, :public, :private, :yes, :now) ON CONFLICT (is_active) WHERE is_active DO NOTHING",
        id=key_id,
        public=public_jwk,
        private=private_jwk,
        yes=True,
        now=tx.now,
    )


async def insert_next(
    tx: Tx, key_id: str, public_jwk: str, private_jwk: bytes, signs_from: float, retired_at: float
) -> None:
    """Write a key that verifies at once and signs later."""
    await tx.run(
        """INSERT INTO signing_keys (id, public_jwk, private_jwk, is_active, created_at, retired_at, signs_from)
            VALUES (:id, :public, :private, :no, :now, :never, :signs_from)""",
        id=key_id,
        public=public_jwk,
        private=private_jwk,
        no=False,
        now=tx.now,
        never=retired_at,
        signs_from=signs_from,
    )


async def following(tx: Tx) -> Row | None:
    """Return the published key that signs next, with the time from which it signs; None if there is none."""
    return await tx.one(
        "SELECT id, signs_from FROM signing_keys WHERE NOT is_active AND retired_at > :now ORDER BY signs_from LIMIT 1",
        now=tx.now,
    )


async def active_since(tx: Tx) -> float | None:
    """Return since when the key that signs was to do so; None if there is none."""
    return await tx.value("SELECT coalesce(signs_from, created_at) AS since FROM signing_keys WHERE is_active")


async def activate(tx: Tx, key_id: str) -> None:
    """Retire the key that signs, and let this one sign."""
    await tx.run(
        "UPDATE signing_keys SET is_active = :no, retired_at = :now WHERE is_active",
        no=False,
        now=tx.now,
    )
    await tx.run(
        "UPDATE signing_keys SET is_active = :yes, retired_at = NULL WHERE id = :id",
        yes=True,
        id=key_id,
    )


async def delete_retired(tx: Tx, before: float) -> None:
    """Delete the keys that were retired before this time."""
    await tx.run("DELETE FROM signing_keys WHERE retired_at < :before", before=before)
