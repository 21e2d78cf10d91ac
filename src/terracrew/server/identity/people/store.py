"""The rows of people, their sessions, links and tokens. Secrets are stored and looked up as hashes."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from terracrew import ids
from terracrew.api.access import ApiToken, OpenSession, User
from terracrew.errors import NotFound
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table

USERS = Table("users", User)
SESSIONS = Table("sessions", OpenSession)
TOKENS = Table("api_tokens", ApiToken)
_INSERT_SESSION = SESSIONS.insert("user_id", "token_sha256")
_INSERT_TOKEN = TOKENS.insert("user_id", "token_sha256")

# People


async def insert_user(tx: Tx, organization_id: str, name: str, *, is_system_admin: bool) -> User:
    made = User(ids.new("usr"), organization_id, name, is_system_admin, is_disabled=False, created_at=tx.moment)
    await tx.run(USERS.insert(), **to_params(made))
    return made


async def find_user(tx: Tx, name_or_id: str) -> User | None:
    return await USERS.one(tx, "FROM users WHERE id = :it OR name = :it", it=name_or_id)


async def user(tx: Tx, name_or_id: str) -> User:
    found = await find_user(tx, name_or_id)
    if found is None:
        raise no_user(name_or_id)
    return found


async def names(tx: Tx, user_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of those of these users who exist, by their ids."""
    rows = await tx.each_id("SELECT users.id, users.name FROM batch JOIN users ON users.id = batch.id", user_ids)
    return {row["id"]: row["name"] for row in rows}


async def hold_user(tx: Tx, user_id: str) -> User:
    """Return a user whose row is locked until the transaction ends. What only refers to it does not wait."""
    found = await USERS.one(tx, "FROM users WHERE id = :id FOR NO KEY UPDATE", id=user_id)
    if found is None:
        raise no_user(user_id)
    return found


def no_user(name_or_id: str) -> NotFound:
    return NotFound(f"there is no user {name_or_id!r}")


async def password_of(tx: Tx, name_or_id: str) -> tuple[User, str | None] | None:
    row = await tx.one(
        "SELECT * FROM users WHERE (id = :it OR name = :it) AND is_disabled = :no", it=name_or_id, no=False
    )
    return None if row is None else (row_to(User, row), row["password_hash"])


async def has_users(tx: Tx) -> bool:
    return await tx.one("SELECT id FROM users LIMIT 1") is not None


async def set_password(tx: Tx, user_id: str, password_hash: str) -> None:
    await tx.run("UPDATE users SET password_hash = :hash WHERE id = :id", hash=password_hash, id=user_id)


async def clear_password(tx: Tx, user_id: str) -> None:
    """Remove the password, so that the user can log in with a link only."""
    await tx.run("UPDATE users SET password_hash = NULL WHERE id = :id", id=user_id)


async def note_login(tx: Tx, user_id: str) -> bool:
    """Note a login, and lock the row, so that who disables the user afterwards finds the session. Returns False if they are disabled."""
    noted = await tx.run(
        "UPDATE users SET last_login_at = :now WHERE id = :id AND is_disabled = :no", now=tx.now, id=user_id, no=False
    )
    return noted == 1


async def rename(tx: Tx, user_id: str, name: str) -> None:
    await tx.run("UPDATE users SET name = :name WHERE id = :id", name=name, id=user_id)


async def set_system_admin(tx: Tx, user_id: str, is_system_admin: bool) -> None:
    await tx.run(
        "UPDATE users SET is_system_admin = :is_system_admin WHERE id = :id",
        is_system_admin=is_system_admin,
        id=user_id,
    )


async def administrator(tx: Tx) -> User:
    """Return the administrator whom the server's own machine acts for: the one of the first start, who may have been renamed,
    or else the one who was created first. A name alone gives nobody this: anybody may have a name that became free."""
    row = await tx.one(
        "SELECT * FROM users WHERE is_system_admin = :yes AND is_disabled = :no ORDER BY id LIMIT 1", yes=True, no=False
    )
    if row is None:
        raise NotFound("there is no administrator who is not disabled")
    return row_to(User, row)


async def hold_administrators(tx: Tx) -> list[str]:
    """Return the ids of all administrators who are not disabled. Their rows are locked until the transaction ends."""
    rows = await tx.all(
        "SELECT id FROM users WHERE is_system_admin = :yes AND is_disabled = :no ORDER BY id FOR UPDATE",
        yes=True,
        no=False,
    )
    return [row["id"] for row in rows]


async def delete_user(tx: Tx, user_id: str) -> None:
    """Remove a user with their sessions, tokens and links. Their roles are removed by the caller."""
    await tx.run("DELETE FROM users WHERE id = :id", id=user_id)


async def set_disabled(tx: Tx, user_id: str, is_disabled: bool) -> User:
    row = await tx.one(
        "UPDATE users SET is_disabled = :is_disabled WHERE id = :id RETURNING *", is_disabled=is_disabled, id=user_id
    )
    if row is None:
        raise no_user(user_id)
    return row_to(User, row)


# One-time links


async def insert_link(tx: Tx, user_id: str, token_sha256: str, expires_at: float, created_by: str) -> bool:
    """Insert the only link of a user. Returns whether it replaces another one that could still be used."""
    ended = await tx.all(
        "DELETE FROM one_time_links WHERE user_id = :user_id RETURNING expires_at > :now AS is_usable",
        user_id=user_id,
        now=tx.now,
    )
    await tx.run(
        "INSERT INTO one_time_links (token_sha256, user_id, created_at, expires_at, created_by)"
        " VALUES (:token_sha256, :user_id, :now, :expires_at, :created_by)",
        token_sha256=token_sha256,
        user_id=user_id,
        now=tx.now,
        expires_at=expires_at,
        created_by=created_by,
    )
    return any(row["is_usable"] for row in ended)


async def link(tx: Tx, token_sha256: str) -> tuple[User, str] | None:
    """Return the user of a link, and the id of the principal that made it."""
    row = await tx.one(
        "SELECT users.*, l.created_by AS maker_id FROM one_time_links AS l JOIN users ON users.id = l.user_id"
        " WHERE l.token_sha256 = :token_sha256 AND l.expires_at > :now AND users.is_disabled = :no",
        token_sha256=token_sha256,
        now=tx.now,
        no=False,
    )
    return None if row is None else (row_to(User, row), row["maker_id"])


async def link_makers(tx: Tx, user_id: str) -> list[str]:
    """Return the ids of the principals that made the links of a user."""
    rows = await tx.all("SELECT created_by FROM one_time_links WHERE user_id = :user_id", user_id=user_id)
    return [row["created_by"] for row in rows]


async def delete_links_of(tx: Tx, user_id: str) -> int:
    """End all links of a user. Returns how many there were."""
    return await tx.run("DELETE FROM one_time_links WHERE user_id = :user_id", user_id=user_id)


async def take_link(tx: Tx, token_sha256: str) -> bool:
    """Use a link up. Returns False if another request has already used it."""
    return await tx.run("DELETE FROM one_time_links WHERE token_sha256 = :sha256", sha256=token_sha256) == 1


# Sessions


async def insert_session(
    tx: Tx, user_id: str, token_sha256: str, expires_at: float, address: str | None
) -> OpenSession:
    now = tx.moment
    made = OpenSession(ids.new("ses"), now, now, datetime.fromtimestamp(expires_at, UTC), address)
    await tx.run(_INSERT_SESSION, **to_params(made), user_id=user_id, token_sha256=token_sha256)
    return made


async def session_user(tx: Tx, token_sha256: str, seen_after: float) -> Row | None:
    """Return the user of a session. `chosen_id` is the organization that the session has chosen, if the user may act in it."""
    return await tx.one(
        "SELECT users.*, s.id AS credential_id, s.seen_at, CASE WHEN users.is_system_admin"
        " OR users.organization_id = s.organization_id OR EXISTS (SELECT 1 FROM role_bindings AS r"
        " WHERE r.principal_id = users.id AND r.organization_id = s.organization_id"
        " AND (r.expires_at IS NULL OR r.expires_at > :now)) THEN s.organization_id END AS chosen_id"
        " FROM sessions AS s JOIN users ON users.id = s.user_id"
        " WHERE s.token_sha256 = :sha256 AND s.expires_at > :now AND s.seen_at > :seen_after"
        " AND users.is_disabled = :no",
        sha256=token_sha256,
        now=tx.now,
        seen_after=seen_after,
        no=False,
    )


async def set_session_organization(tx: Tx, session_id: str, organization_id: str) -> None:
    await tx.run("UPDATE sessions SET organization_id = :chosen WHERE id = :id", chosen=organization_id, id=session_id)


async def forget_organization(tx: Tx, organization_id: str) -> None:
    """Let sessions that act in an organization act in that of their user again."""
    await tx.run("UPDATE sessions SET organization_id = NULL WHERE organization_id = :id", id=organization_id)


async def note_session(tx: Tx, session_id: str) -> None:
    await tx.run("UPDATE sessions SET seen_at = :now WHERE id = :id", now=tx.now, id=session_id)


async def delete_session(tx: Tx, token_sha256: str) -> Row | None:
    return await tx.one("DELETE FROM sessions WHERE token_sha256 = :sha256 RETURNING id, user_id", sha256=token_sha256)


async def delete_sessions_of(tx: Tx, user_id: str, but: str | None = None) -> int:
    """End all sessions of a user except `but`. Returns how many ended."""
    return await tx.run("DELETE FROM sessions WHERE user_id = :user_id AND id <> :but", user_id=user_id, but=but or "")


async def delete_sessions(tx: Tx, session_ids: Sequence[str]) -> set[str]:
    """End these sessions. Return the users whose sessions they were."""
    rows = await tx.each_id("DELETE FROM sessions WHERE id IN (SELECT id FROM batch) RETURNING user_id", session_ids)
    return {row["user_id"] for row in rows}


async def delete_session_of(tx: Tx, user_id: str, session_id: str) -> None:
    if not await tx.run("DELETE FROM sessions WHERE id = :id AND user_id = :user_id", id=session_id, user_id=user_id):
        raise NotFound(f"this user has no session {session_id}")


async def sessions_of(tx: Tx, user_id: str, seen_after: float, after: str, limit: int) -> list[OpenSession]:
    return await SESSIONS.all(
        tx,
        "FROM sessions WHERE user_id = :user_id AND id > :after AND expires_at > :now AND seen_at > :seen_after "
        "ORDER BY id LIMIT :limit",
        user_id=user_id,
        after=after,
        now=tx.now,
        seen_after=seen_after,
        limit=limit,
    )


async def is_session_open(tx: Tx, user_id: str, session_id: str, seen_after: float) -> bool:
    row = await tx.one(
        "SELECT s.id FROM sessions AS s JOIN users ON users.id = s.user_id WHERE s.id = :id AND s.user_id = :user_id"
        " AND s.expires_at > :now AND s.seen_at > :seen_after AND users.is_disabled = :no",
        id=session_id,
        user_id=user_id,
        now=tx.now,
        seen_after=seen_after,
        no=False,
    )
    return row is not None


# API tokens


async def is_token_valid(tx: Tx, user_id: str, token_id: str) -> bool:
    row = await tx.one(
        "SELECT id FROM api_tokens WHERE id = :id AND user_id = :user_id AND (expires_at IS NULL OR expires_at > :now)",
        id=token_id,
        user_id=user_id,
        now=tx.now,
    )
    return row is not None


async def insert_token(
    tx: Tx,
    user_id: str,
    name: str,
    token_sha256: str,
    expires_at: float | None,
    *,
    is_local: bool = False,
    is_engine_login: bool = False,
    is_cli_login: bool = False,
) -> ApiToken:
    ends_at = None if expires_at is None else datetime.fromtimestamp(expires_at, UTC)
    made = ApiToken(
        ids.new("tok"),
        name,
        tx.moment,
        ends_at,
        None,
        is_local=is_local,
        is_engine_login=is_engine_login,
        is_cli_login=is_cli_login,
    )
    await tx.run(_INSERT_TOKEN, **to_params(made), user_id=user_id, token_sha256=token_sha256)
    return made


async def tokens(tx: Tx, user_id: str, after: str, limit: int) -> list[ApiToken]:
    return await TOKENS.all(
        tx,
        "FROM api_tokens WHERE user_id = :user_id AND id > :after ORDER BY id LIMIT :limit",
        user_id=user_id,
        after=after,
        limit=limit,
    )


async def ending_tokens(tx: Tx, user_id: str, until: float, count: int) -> list[Row]:
    """Return the tokens of a person that end next, before a time. One that the server leaves for its own machine is none."""
    return await tx.all(
        """SELECT id, name, expires_at FROM api_tokens
        WHERE user_id = :user_id AND NOT is_local AND expires_at > :now AND expires_at <= :until
        ORDER BY expires_at, id LIMIT :count""",
        user_id=user_id,
        now=tx.now,
        until=until,
        count=count,
    )


async def count_tokens(tx: Tx, user_id: str) -> int:
    return await tx.value("SELECT count(*) AS tokens FROM api_tokens WHERE user_id = :user_id", user_id=user_id)


async def delete_token(tx: Tx, user_id: str, token_id: str) -> str:
    """Revoke a token of this user, and return its name."""
    row = await tx.one(
        "DELETE FROM api_tokens WHERE id = :id AND user_id = :user_id RETURNING name", id=token_id, user_id=user_id
    )
    if row is None:
        raise NotFound(f"there is no API token {token_id}")
    return row["name"]


async def delete_tokens_of(tx: Tx, user_id: str) -> int:
    """Revoke all API tokens of a user. Returns how many were revoked."""
    return await tx.run("DELETE FROM api_tokens WHERE user_id = :user_id", user_id=user_id)


async def is_local_token(tx: Tx, token_sha256: str, ends_after: float) -> bool:
    row = await tx.one(
        "SELECT t.id FROM api_tokens AS t JOIN users ON users.id = t.user_id WHERE t.token_sha256 = :sha256"
        " AND t.is_local = :yes AND t.expires_at > :ends_after AND users.is_system_admin = :yes AND users.is_disabled = :no",
        sha256=token_sha256,
        yes=True,
        no=False,
        ends_after=ends_after,
    )
    return row is not None


async def token_users(tx: Tx, digests: Iterable[str]) -> dict[str, Row]:
    """Return the users of these API tokens, by the digest of the token. One that is not valid has none."""
    rows = await tx.each(
        """SELECT users.*, t.token_sha256, t.id AS credential_id, t.last_used_at, t.is_local, t.expires_at AS ends_at
        FROM batch JOIN api_tokens AS t ON t.token_sha256 = batch.sha256 JOIN users ON users.id = t.user_id
        WHERE (t.expires_at IS NULL OR t.expires_at > batch.now) AND NOT users.is_disabled""",
        {"sha256": "text", "now": "double precision"},
        [(each, tx.now) for each in sorted(set(digests))],
    )
    return {row["token_sha256"]: row for row in rows}


async def note_token_use(tx: Tx, token_id: str) -> None:
    await tx.run("UPDATE api_tokens SET last_used_at = :now WHERE id = :id", now=tx.now, id=token_id)


# Credentials that have expired


async def prune_sessions(tx: Tx, before: float, count: int) -> int:
    """Remove sessions that expired before this time."""
    return await delete_some(tx, "sessions", "expires_at < :before ORDER BY expires_at", before, count)


async def prune_links(tx: Tx, before: float, count: int) -> int:
    """Remove one-time links that expired before this time."""
    return await delete_some(tx, "one_time_links", "expires_at < :before", before, count, key="token_sha256")


async def prune_tokens(tx: Tx, before: float, count: int) -> int:
    """Remove API tokens that expired before this time. Until then, their owners can see that they have expired."""
    return await delete_some(tx, "api_tokens", "expires_at < :before", before, count)
