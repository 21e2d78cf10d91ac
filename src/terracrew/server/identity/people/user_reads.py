"""Reads users for people who manage them, and the rows of other tables that say what a user or a maker of links may do."""

from typing import LiteralString

from terracrew.api.access import UserListed
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.identity.people.store import USERS

_SELECT: LiteralString = f"""SELECT {USERS.columns}, users.password_hash IS NOT NULL AS has_password,
    EXISTS (SELECT 1 FROM one_time_links WHERE one_time_links.user_id = users.id
        AND one_time_links.expires_at > :now) AS is_invited FROM users"""
_IS_MEMBER: LiteralString = """role_bindings.organization_id = :organization_id AND role_bindings.principal_kind = 'user'
    AND (role_bindings.expires_at IS NULL OR role_bindings.expires_at > :now)"""
_PAGE: LiteralString = " ORDER BY users.id LIMIT :limit"
OF_ORGANIZATION: LiteralString = f"""{_SELECT} WHERE users.id IN (
    SELECT own.id FROM (SELECT id FROM users WHERE organization_id = :organization_id AND id > :after
        ORDER BY id LIMIT :limit) AS own
    UNION SELECT member.id FROM (SELECT DISTINCT principal_id AS id FROM role_bindings WHERE {_IS_MEMBER}
        AND principal_id > :after ORDER BY principal_id LIMIT :limit) AS member){_PAGE}"""
"""Each part of the union reads one page from an index, so that a page costs the same however many users there are."""
_FOUND: LiteralString = f"""{_SELECT} WHERE users.name LIKE :pattern ESCAPE '!' AND users.id > :after
    AND (users.organization_id = :organization_id
        OR EXISTS (SELECT 1 FROM role_bindings WHERE role_bindings.principal_id = users.id AND {_IS_MEMBER})){_PAGE}"""


async def listing(tx: Tx, organization_id: str, search: str | None, after: str, limit: int) -> list[UserListed]:
    """Return the users of an organization, and those of other organizations who have a role in it, ordered by id."""
    given: dict[str, Param] = {"organization_id": organization_id, "now": tx.now, "after": after, "limit": limit}
    if not search:
        return rows_to(UserListed, await tx.all(OF_ORGANIZATION, **given))
    pattern = "".join(f"!{each}" if each in "!%_" else each for each in search.lower())
    return rows_to(UserListed, await tx.all(_FOUND, **given, pattern=f"%{pattern}%"))


async def of_id(tx: Tx, user_id: str) -> UserListed | None:
    row = await tx.one(_SELECT + " WHERE users.id = :id", id=user_id, now=tx.now)
    return None if row is None else row_to(UserListed, row)


async def is_member_elsewhere(tx: Tx, user_id: str, organization_id: str) -> bool:
    """Return whether a user has a role in another organization than this one."""
    row = await tx.one(
        "SELECT id FROM role_bindings WHERE principal_id = :id AND organization_id <> :organization_id LIMIT 1",
        id=user_id,
        organization_id=organization_id,
    )
    return row is not None


async def has_role_in(tx: Tx, user_id: str, organization_id: str) -> bool:
    """Return whether a user has a role in this organization."""
    row = await tx.one(
        "SELECT id FROM role_bindings WHERE principal_id = :id AND organization_id = :organization_id LIMIT 1",
        id=user_id,
        organization_id=organization_id,
    )
    return row is not None


_IS_LOCAL_ADMINISTRATOR: LiteralString = """(users.is_system_admin = :yes OR EXISTS (SELECT 1 FROM role_bindings
    WHERE role_bindings.principal_id = users.id AND role_bindings.organization_id = users.organization_id
        AND role_bindings.role = 'owner' AND role_bindings.place_kind = 'group' AND role_bindings.path = ''
        AND role_bindings.source = '' AND role_bindings.expires_at IS NULL))"""
"""A local administrator is one of the server, or an owner of the whole organization whose role a person has granted without an end."""


async def must_sign_in_at_provider(tx: Tx, user_id: str) -> bool:
    """Return whether a user may log in by single sign-on only."""
    row = await tx.one(
        "SELECT users.id FROM users JOIN login_policies AS p ON p.organization_id = users.organization_id"
        f" WHERE users.id = :id AND p.is_single_sign_on_required = :yes AND NOT {_IS_LOCAL_ADMINISTRATOR}",
        id=user_id,
        yes=True,
    )
    return row is not None


async def is_sign_on_required(tx: Tx, organization_id: str) -> bool:
    """Return whether the people of an organization log in by single sign-on only."""
    row = await tx.one(
        "SELECT organization_id FROM login_policies WHERE organization_id = :id AND is_single_sign_on_required = :yes",
        id=organization_id,
        yes=True,
    )
    return row is not None


async def has_local_administrator(tx: Tx, organization_id: str) -> bool:
    """Return whether somebody of the organization can always log in with a password."""
    row = await tx.one(
        "SELECT users.id FROM users WHERE users.organization_id = :organization_id AND users.password_hash IS NOT NULL"
        f" AND users.is_disabled = :no AND {_IS_LOCAL_ADMINISTRATOR} LIMIT 1",
        organization_id=organization_id,
        yes=True,
        no=False,
    )
    return row is not None


async def enabled_account(tx: Tx, account_id: str) -> Row | None:
    """Return the name and the organization of a service account that is not disabled."""
    return await tx.one(
        "SELECT name, organization_id FROM service_accounts WHERE id = :id AND is_disabled = :no",
        id=account_id,
        no=False,
    )


async def credential_counts(tx: Tx, user_id: str, seen_after: float) -> tuple[int, int]:
    """Return how many sessions and how many API tokens of a user are valid."""
    row = await tx.one(
        """SELECT (SELECT count(*) FROM sessions WHERE user_id = :id AND expires_at > :now AND seen_at > :seen_after) AS sessions,
            (SELECT count(*) FROM api_tokens WHERE user_id = :id AND (expires_at IS NULL OR expires_at > :now)) AS tokens""",
        id=user_id,
        now=tx.now,
        seen_after=seen_after,
    )
    return (row["sessions"], row["tokens"]) if row else (0, 0)


async def sessions_of_untrusted_providers(tx: Tx, user_id: str) -> list[str]:
    """Return the sessions of a user that began at a provider which may not log in people with rights beyond their organization."""
    rows = await tx.all(
        "SELECT s.session_id FROM identity_sessions AS s JOIN identities AS i ON i.id = s.identity_id"
        " JOIN identity_providers AS p ON p.id = i.provider_id WHERE i.user_id = :id AND p.is_trusted = :no",
        id=user_id,
        no=False,
    )
    return [row["session_id"] for row in rows]
