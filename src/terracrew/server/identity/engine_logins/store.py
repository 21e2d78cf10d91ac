"""The rows of the engines' logins. Codes are stored and looked up as hashes."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.identity.engine_logins.model import EngineLogin, LoginRequest


async def insert(
    tx: Tx,
    code_sha256: str,
    user_id: str,
    session_id: str,
    request: LoginRequest,
    name: str,
    days: int | None,
    expires_at: float,
) -> None:
    await tx.run(
        "INSERT INTO engine_logins (code_sha256, user_id, session_id, redirect_uri, challenge, name, days, created_at,"
        " expires_at) VALUES (:code_sha256, :user_id, :session_id, :redirect_uri, :challenge, :name, :days, :now,"
        " :expires_at)",
        code_sha256=code_sha256,
        user_id=user_id,
        session_id=session_id,
        redirect_uri=request.redirect_uri,
        challenge=request.challenge,
        name=name,
        days=days,
        now=tx.now,
        expires_at=expires_at,
    )


async def find(tx: Tx, code_sha256: str) -> EngineLogin | None:
    row = await tx.one("SELECT * FROM engine_logins WHERE code_sha256 = :sha256", sha256=code_sha256)
    return None if row is None else row_to(EngineLogin, row)


async def take(tx: Tx, code_sha256: str) -> bool:
    """Use a code up. Returns False if another request has already used it."""
    taken = await tx.run(
        "UPDATE engine_logins SET used_at = :now WHERE code_sha256 = :sha256 AND used_at IS NULL",
        now=tx.now,
        sha256=code_sha256,
    )
    return taken == 1


async def note_token(tx: Tx, code_sha256: str, token_id: str) -> None:
    await tx.run(
        "UPDATE engine_logins SET token_id = :token_id WHERE code_sha256 = :sha256",
        token_id=token_id,
        sha256=code_sha256,
    )


async def prune(tx: Tx, before: float, count: int) -> int:
    """Remove the codes that expired before this time. Until then, a second use of one is recognized."""
    condition = "expires_at < :before ORDER BY expires_at"
    return await delete_some(tx, "engine_logins", condition, before, count, key="code_sha256")
