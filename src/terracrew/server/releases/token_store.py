"""Rows of release tokens. Only the hash of a token is stored."""

from terracrew.api.releases import ReleaseToken
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table

TOKENS = Table("release_tokens", ReleaseToken)
_INSERT = TOKENS.insert("token_sha256")


async def insert(tx: Tx, token: ReleaseToken, token_sha256: str) -> None:
    await tx.run(_INSERT, token_sha256=token_sha256, **to_params(token))


async def count(tx: Tx) -> int:
    row = await tx.one("SELECT count(*) AS tokens FROM release_tokens")
    return row["tokens"] if row else 0


async def page(tx: Tx, after: str, limit: int) -> list[ReleaseToken]:
    rows = await tx.all(
        f"SELECT {TOKENS.columns} FROM release_tokens WHERE id > :after ORDER BY id LIMIT :limit",
        after=after,
        limit=limit,
    )
    return rows_to(ReleaseToken, rows)


async def valid(tx: Tx, token_sha256: str) -> ReleaseToken | None:
    """Return the token with this hash, unless it has expired."""
    row = await tx.one(
        f"SELECT {TOKENS.columns} FROM release_tokens WHERE token_sha256 = :sha256 AND expires_at > :now",
        sha256=token_sha256,
        now=tx.now,
    )
    return None if row is None else row_to(ReleaseToken, row)


async def note_use(tx: Tx, token_id: str) -> None:
    await tx.run("UPDATE release_tokens SET last_used_at = :now WHERE id = :id", now=tx.now, id=token_id)


async def delete(tx: Tx, token_id: str) -> str:
    """Revoke a token, and return its name."""
    row = await tx.one("DELETE FROM release_tokens WHERE id = :id RETURNING name", id=token_id)
    if row is None:
        raise NotFound(f"there is no release token {token_id}")
    return row["name"]


async def prune(tx: Tx, before: float, limit: int) -> int:
    """Remove tokens that expired before this time. Until then, administrators can see that they have expired."""
    return await tx.run(
        "DELETE FROM release_tokens WHERE id IN (SELECT id FROM release_tokens WHERE expires_at < :before LIMIT :limit)",
        before=before,
        limit=limit,
    )
