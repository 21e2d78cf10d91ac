"""Forgets the idempotency keys of old jobs: the client that made one has long stopped repeating its request."""

from terracrew.server.db.seam import Tx


async def prune_idempotency_keys(tx: Tx, before: float, count: int) -> int:
    """Take the keys from jobs that were created before this time; the jobs stay."""
    return await tx.run(
        """UPDATE jobs SET idempotency_key = NULL WHERE idempotency_key IS NOT NULL AND id IN (
            SELECT id FROM jobs WHERE idempotency_key IS NOT NULL AND created_at < :before
            ORDER BY created_at LIMIT :count)""",
        before=before,
        count=count,
    )
