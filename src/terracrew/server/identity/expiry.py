"""Removes credentials that have expired: sessions, one-time links, API tokens, secrets of service accounts."""

from terracrew.server.db.seam import Tx


async def prune_sessions(tx: Tx, before: float, count: int) -> int:
    """Remove sessions that expired before this time."""
    return await tx.run(
        """DELETE FROM sessions WHERE id IN (
            SELECT id FROM sessions WHERE expires_at < :before ORDER BY expires_at LIMIT :count)""",
        before=before,
        count=count,
    )


async def prune_links(tx: Tx, before: float, count: int) -> int:
    """Remove one-time links that expired before this time."""
    return await tx.run(
        """DELETE FROM one_time_links WHERE token_sha256 IN (
            SELECT token_sha256 FROM one_time_links WHERE expires_at < :before LIMIT :count)""",
        before=before,
        count=count,
    )


async def prune_tokens(tx: Tx, before: float, count: int) -> int:
    """Remove API tokens that expired before this time; until then their owners see that they did."""
    return await tx.run(
        "DELETE FROM api_tokens WHERE id IN (SELECT id FROM api_tokens WHERE expires_at < :before LIMIT :count)",
        before=before,
        count=count,
    )


async def prune_secrets(tx: Tx, before: float, count: int) -> int:
    """Remove secrets of service accounts that expired before this time."""
    return await tx.run(
        """DELETE FROM service_account_secrets WHERE id IN (
            SELECT id FROM service_account_secrets WHERE expires_at < :before LIMIT :count)""",
        before=before,
        count=count,
    )
