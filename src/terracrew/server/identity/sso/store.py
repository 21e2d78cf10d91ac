"""The rows of single sign-on."""

from collections.abc import Iterable, Sequence
from typing import Any, LiteralString

import msgspec

from terracrew import ids
from terracrew.api.sso import LinkedIdentity, MappingRule, Outcome, ProviderChange
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments
from terracrew.server.identity.sso.model import LinkedPerson, ProviderSession, StoredProvider

PROVIDERS = Table("identity_providers", StoredProvider)
RULES = Table("mapping_rules", MappingRule, without=("path", "is_module"))
IDENTITIES = Table("identities", LinkedPerson)
SESSIONS = Table("identity_sessions", ProviderSession)
MAX_KEPT_LOGINS = 200
"""How many logins of one provider are kept."""
_CHANGEABLE = (*PROVIDERS.fields_of(ProviderChange), "sealed")
_RULES: LiteralString = f"""SELECT {RULES.columns}, coalesce(groups.path, modules.path) AS path, modules.id IS NOT NULL AS is_module
    FROM mapping_rules LEFT JOIN groups ON groups.id = mapping_rules.group_id LEFT JOIN modules ON modules.id = mapping_rules.module_id"""

# Providers


async def insert_provider(tx: Tx, made: StoredProvider) -> None:
    await tx.run(PROVIDERS.insert(), **to_params(made))


async def provider(tx: Tx, provider_id: str) -> StoredProvider | None:
    return await PROVIDERS.find(tx, id=provider_id)


async def hold_provider(tx: Tx, provider_id: str) -> StoredProvider | None:
    return await PROVIDERS.hold(tx, id=provider_id)


async def providers(tx: Tx, organization_id: str) -> list[StoredProvider]:
    return await PROVIDERS.all(
        tx,
        "FROM identity_providers WHERE organization_id = :organization_id ORDER BY name",
        organization_id=organization_id,
    )


async def save_provider(tx: Tx, after: StoredProvider) -> None:
    await tx.run(
        f"UPDATE identity_providers SET {assignments(*_CHANGEABLE)} WHERE id = :id",
        id=after.id,
        **to_params(after, *_CHANGEABLE),
    )


async def delete_provider(tx: Tx, provider_id: str) -> None:
    await tx.run("DELETE FROM identity_providers WHERE id = :id", id=provider_id)


async def note_rules_changed(tx: Tx, provider_id: str) -> None:
    """Count a change of the rules, so that every identity is evaluated again."""
    await tx.run("UPDATE identity_providers SET rules_version = rules_version + 1 WHERE id = :id", id=provider_id)


# Rules


async def rules(tx: Tx, provider_id: str) -> list[MappingRule]:
    rows = await tx.all(_RULES + " WHERE mapping_rules.provider_id = :id ORDER BY mapping_rules.id", id=provider_id)
    return rows_to(MappingRule, rows)


async def insert_rule(
    tx: Tx, provider_id: str, rule: MappingRule, group_id: str | None, module_id: str | None, created_by: str
) -> None:
    made = msgspec.structs.replace(rule, created_by=created_by, created_at=tx.moment)
    await tx.run(
        RULES.insert("provider_id", "group_id", "module_id"),
        provider_id=provider_id,
        group_id=group_id,
        module_id=module_id,
        **to_params(made, *RULES.fields),
    )


async def delete_rule(tx: Tx, provider_id: str, rule_id: str) -> bool:
    gone = await tx.run(
        "DELETE FROM mapping_rules WHERE id = :id AND provider_id = :provider_id", id=rule_id, provider_id=provider_id
    )
    return gone == 1


# Identities


async def identity(tx: Tx, provider_id: str, subject: str) -> LinkedPerson | None:
    """Return an identity, and lock its row until the transaction ends: its roles are changed by one at a time."""
    return await IDENTITIES.hold(tx, provider_id=provider_id, subject=subject)


async def identity_of_id(tx: Tx, identity_id: str) -> LinkedPerson | None:
    return await IDENTITIES.hold(tx, id=identity_id)


async def find_identity(tx: Tx, identity_id: str) -> LinkedPerson | None:
    return await IDENTITIES.find(tx, id=identity_id)


async def insert_identity(tx: Tx, provider_id: str, subject: str, user_id: str, created_by: str) -> LinkedPerson:
    made = LinkedPerson(ids.new("iid"), provider_id, subject, user_id, {}, tx.now, -1, created_by, tx.now)
    await tx.run(IDENTITIES.insert(), **to_params(made))
    return made


async def save_claims(tx: Tx, identity_id: str, claims: dict[str, Any]) -> None:
    await tx.run(
        "UPDATE identities SET claims = :claims, confirmed_at = :now WHERE id = :id",
        claims=msgspec.json.encode(claims).decode(),
        now=tx.now,
        id=identity_id,
    )


async def note_evaluated(tx: Tx, provider_id: str, user_ids: Iterable[str], version: int) -> None:
    """Note from which rules the roles of these users follow, as far as they are linked to people of a provider."""
    await tx.each(
        "UPDATE identities SET evaluated_version = batch.version FROM batch"
        " WHERE identities.provider_id = batch.provider_id AND identities.user_id = batch.user_id",
        {"provider_id": "text", "user_id": "text", "version": "bigint"},
        [(provider_id, each, version) for each in user_ids],
    )


async def claims_of_users(tx: Tx, provider_id: str, user_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the stored claims of those of these users who are linked to people of a provider."""
    rows = await tx.each(
        "SELECT identities.user_id, identities.claims FROM batch JOIN identities"
        " ON identities.provider_id = batch.provider_id AND identities.user_id = batch.user_id",
        {"provider_id": "text", "user_id": "text"},
        [(provider_id, each) for each in user_ids],
    )
    return {row["user_id"]: msgspec.json.decode(row["claims"], type=dict[str, Any]) for row in rows}


async def delete_identity(tx: Tx, identity_id: str) -> None:
    await tx.run("DELETE FROM identities WHERE id = :id", id=identity_id)


async def stale_users(tx: Tx, count: int) -> tuple[str, list[str]]:
    """Return users of one provider whose roles follow from earlier rules, with the id of the provider; '' if there are none."""
    rows = await tx.all(
        "SELECT i.provider_id, i.user_id FROM identities AS i JOIN identity_providers AS p ON p.id = i.provider_id"
        " WHERE i.evaluated_version < p.rules_version ORDER BY i.provider_id, i.user_id LIMIT :count",
        count=count,
    )
    first = rows[0]["provider_id"] if rows else ""
    return first, [row["user_id"] for row in rows if row["provider_id"] == first]


async def latest_identities(tx: Tx, provider_id: str, count: int) -> list[LinkedPerson]:
    return await IDENTITIES.all(
        tx,
        "FROM identities WHERE provider_id = :id ORDER BY confirmed_at DESC LIMIT :count",
        id=provider_id,
        count=count,
    )


_LINKED: LiteralString = """SELECT i.id, i.provider_id, p.name AS provider, p.issuer, i.subject, i.user_id, users.name AS "user",
    i.confirmed_at, i.created_at FROM identities AS i JOIN identity_providers AS p ON p.id = i.provider_id
    JOIN users ON users.id = i.user_id"""


async def linked(tx: Tx, provider_id: str, after: str, count: int) -> list[LinkedIdentity]:
    """Return the people of a provider, ordered by id."""
    rows = await tx.all(
        _LINKED + " WHERE i.provider_id = :id AND i.id > :after ORDER BY i.id LIMIT :count",
        id=provider_id,
        after=after,
        count=count,
    )
    return rows_to(LinkedIdentity, rows)


async def linked_of_user(tx: Tx, user_id: str) -> list[LinkedIdentity]:
    return rows_to(LinkedIdentity, await tx.all(_LINKED + " WHERE i.user_id = :id ORDER BY i.id", id=user_id))


# People and groups that an identity provider manages


async def provisioned_groups(tx: Tx, provider_id: str, user_ids: Iterable[str], count: int) -> dict[str, list[str]]:
    """Return the names and external ids of the first groups in which the identity provider of the same organization has put users."""
    rows = await tx.each(
        "SELECT user_id, display_name, external_id FROM (SELECT m.user_id, g.display_name, g.external_id, batch.most,"
        " row_number() OVER (PARTITION BY m.user_id ORDER BY g.id) AS place"
        " FROM batch JOIN provisioned_members AS m ON m.user_id = batch.user_id"
        " JOIN provisioned_groups AS g ON g.id = m.group_id JOIN identity_providers AS p ON p.id = batch.provider_id"
        " AND p.organization_id = g.organization_id) AS found WHERE place <= most ORDER BY user_id, place",
        {"provider_id": "text", "user_id": "text", "most": "bigint"},
        [(provider_id, each, count) for each in user_ids],
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["user_id"], []).extend(filter(None, (row["display_name"], row["external_id"])))
    return found


async def provisioned_user(tx: Tx, provider_id: str, external_ids: Sequence[str]) -> str | None:
    """Return the user who has one of these external ids, if the people of this provider are those of the provisioner.

    A user whom the provisioner has deleted is returned if nobody else has the id: nobody who was deleted comes back as a new user.
    """
    rows = await tx.each(
        "SELECT pp.user_id, pp.deleted_at FROM batch JOIN identity_providers AS p ON p.id = batch.provider_id"
        " JOIN provisioners AS o ON o.provider_id = p.id AND o.organization_id = p.organization_id"
        " JOIN provisioned_people AS pp ON pp.organization_id = o.organization_id AND pp.external_id = batch.external_id",
        {"provider_id": "text", "external_id": "text"},
        [(provider_id, each) for each in external_ids if each],
    )
    present = {row["user_id"] for row in rows if row["deleted_at"] is None}
    found = present or {row["user_id"] for row in rows}
    return found.pop() if len(found) == 1 else None


async def provisioned_people(tx: Tx, provider_id: str, after: str, count: int) -> list[str]:
    """Return users of the organization of a provider whom an identity provider has put in groups, or who have roles by its rules,
    ordered by id. Rules mean nothing to the others, of whom there may be very many."""
    rows = await tx.all(
        "SELECT pp.user_id FROM identity_providers AS p JOIN provisioned_people AS pp"
        " ON pp.organization_id = p.organization_id WHERE p.id = :id AND pp.user_id > :after"
        " AND (EXISTS (SELECT 1 FROM provisioned_members AS m WHERE m.user_id = pp.user_id)"
        " OR EXISTS (SELECT 1 FROM role_bindings AS r WHERE r.principal_id = pp.user_id AND r.source = p.id))"
        " ORDER BY pp.user_id LIMIT :count",
        id=provider_id,
        after=after,
        count=count,
    )
    return [row["user_id"] for row in rows]


async def providers_with_new_rules(tx: Tx) -> list[tuple[str, int]]:
    """Return providers for whose current rules not everybody was evaluated whom an identity provider manages."""
    rows = await tx.all(
        "SELECT id, rules_version FROM identity_providers WHERE groups_version < rules_version ORDER BY id"
    )
    return [(row["id"], row["rules_version"]) for row in rows]


async def note_groups_version(tx: Tx, provider_id: str, version: int) -> None:
    await tx.run(
        "UPDATE identity_providers SET groups_version = :version WHERE id = :id AND groups_version < :version",
        version=version,
        id=provider_id,
    )


# Logins


async def insert_login(
    tx: Tx,
    provider_id: str,
    subject: str,
    user_id: str | None,
    outcome: Outcome,
    reason: str,
    claims: dict[str, Any],
    address: str,
) -> None:
    """Keep a login, and forget the oldest ones of the provider."""
    await tx.run(
        "INSERT INTO identity_logins (id, provider_id, subject, user_id, outcome, reason, claims, address, created_at)"
        " VALUES (:id, :provider_id, :subject, :user_id, :outcome, :reason, :claims, :address, :now)",
        id=ids.new("ilg"),
        provider_id=provider_id,
        subject=subject,
        user_id=user_id,
        outcome=outcome,
        reason=reason,
        claims=msgspec.json.encode(claims).decode(),
        address=address,
        now=tx.now,
    )
    await tx.run(
        "DELETE FROM identity_logins WHERE provider_id = :provider_id AND id NOT IN (SELECT id FROM identity_logins"
        " WHERE provider_id = :provider_id ORDER BY id DESC LIMIT :count)",
        provider_id=provider_id,
        count=MAX_KEPT_LOGINS,
    )


async def logins(tx: Tx, provider_id: str, before: str, count: int) -> list[Row]:
    """Return the last logins, the newest first. `before` is the id of the last one that was read; empty for the first page."""
    return await tx.all(
        "SELECT l.*, coalesce(users.name, '') AS \"user\" FROM identity_logins AS l LEFT JOIN users ON users.id = l.user_id"
        " WHERE l.provider_id = :id AND (CAST(:before AS text) = '' OR l.id < :before) ORDER BY l.id DESC LIMIT :count",
        id=provider_id,
        before=before,
        count=count,
    )


# Sessions


async def insert_session(
    tx: Tx, session_id: str, who: LinkedPerson, sid: str, sealed: bytes | None, due_at: float | None
) -> None:
    made = ProviderSession(session_id, who.id, who.provider_id, sid, sealed, tx.now, due_at, 0.0, "")
    await tx.run(SESSIONS.insert(), **to_params(made))


async def session(tx: Tx, session_id: str) -> ProviderSession | None:
    return await SESSIONS.find(tx, session_id=session_id)


async def sessions_of_identity(tx: Tx, identity_id: str) -> list[str]:
    rows = await tx.all("SELECT session_id FROM identity_sessions WHERE identity_id = :id", id=identity_id)
    return [row["session_id"] for row in rows]


async def sessions_of_user(tx: Tx, provider_id: str, user_id: str) -> list[str]:
    """Return the sessions of a user that began at a provider."""
    rows = await tx.all(
        "SELECT s.session_id FROM identity_sessions AS s JOIN identities AS i ON i.id = s.identity_id"
        " WHERE i.provider_id = :provider_id AND i.user_id = :user_id",
        provider_id=provider_id,
        user_id=user_id,
    )
    return [row["session_id"] for row in rows]


async def sessions_of_provider(tx: Tx, provider_id: str) -> list[str]:
    rows = await tx.all("SELECT session_id FROM identity_sessions WHERE provider_id = :id", id=provider_id)
    return [row["session_id"] for row in rows]


async def sessions_of_logout(tx: Tx, provider_id: str, sid: str | None, subject: str | None) -> list[str]:
    """Return the sessions that a logout names: those of a session at the provider, or all of a person, or those that are both."""
    rows = await tx.all(
        "SELECT s.session_id FROM identity_sessions AS s JOIN identities AS i ON i.id = s.identity_id"
        " WHERE s.provider_id = :provider_id AND (CAST(:sid AS text) IS NULL OR s.sid = :sid)"
        " AND (CAST(:subject AS text) IS NULL OR i.subject = :subject)"
        " AND (CAST(:sid AS text) IS NOT NULL OR CAST(:subject AS text) IS NOT NULL)",
        provider_id=provider_id,
        sid=sid,
        subject=subject,
    )
    return [row["session_id"] for row in rows]


async def has_due(tx: Tx) -> bool:
    row = await tx.one(
        "SELECT session_id FROM identity_sessions WHERE due_at <= :now AND claimed_until <= :now LIMIT 1", now=tx.now
    )
    return row is not None


async def claim_due(tx: Tx, seconds: float, count: int, per_organization: int) -> list[ProviderSession]:
    """Take sessions that are due, so that no other server asks about them meanwhile. Those of an organization that are taken already
    count among its own."""
    rows = await tx.all(
        f"""UPDATE identity_sessions SET claimed_until = :until WHERE session_id IN (
            SELECT session_id FROM identity_sessions WHERE due_at <= :now AND claimed_until <= :now AND session_id IN (
                SELECT session_id FROM (SELECT s.session_id, row_number() OVER (PARTITION BY p.organization_id
                    ORDER BY CASE WHEN s.claimed_until > :now THEN 0 ELSE 1 END, s.due_at, s.session_id) AS place
                    FROM identity_sessions AS s JOIN identity_providers AS p ON p.id = s.provider_id
                    WHERE s.due_at <= :now) AS queue WHERE place <= :per_organization)
            ORDER BY due_at LIMIT :count FOR UPDATE SKIP LOCKED) RETURNING {SESSIONS.columns}""",
        until=tx.now + seconds,
        now=tx.now,
        count=count,
        per_organization=per_organization,
    )
    return rows_to(ProviderSession, rows)


async def save_refresh_token(tx: Tx, claimed: ProviderSession, sealed: bytes) -> None:
    """Keep the next refresh token of a session, unless the claim has ended, or the session."""
    await tx.run(
        "UPDATE identity_sessions SET sealed = :sealed WHERE session_id = :id AND claimed_until = :claimed",
        sealed=sealed,
        id=claimed.session_id,
        claimed=claimed.claimed_until,
    )


async def save_refreshed(tx: Tx, claimed: ProviderSession, due_at: float) -> bool:
    """Note that the provider has confirmed a session. Returns False if the claim has ended, or the session."""
    saved = await tx.run(
        "UPDATE identity_sessions SET due_at = :due_at, confirmed_at = :now, claimed_until = 0, failure = ''"
        " WHERE session_id = :id AND claimed_until = :claimed",
        due_at=due_at,
        now=tx.now,
        id=claimed.session_id,
        claimed=claimed.claimed_until,
    )
    return saved == 1


async def note_refresh_failed(tx: Tx, claimed: ProviderSession, reason: str, due_at: float) -> None:
    await tx.run(
        "UPDATE identity_sessions SET failure = :reason, due_at = :due_at, claimed_until = 0"
        " WHERE session_id = :id AND claimed_until = :claimed",
        reason=reason[:500],
        due_at=due_at,
        id=claimed.session_id,
        claimed=claimed.claimed_until,
    )


async def make_due(tx: Tx, identity_id: str) -> None:
    """Let the provider be asked at once about all sessions of a person."""
    await tx.run(
        "UPDATE identity_sessions SET due_at = :now WHERE identity_id = :id AND due_at > :now",
        now=tx.now,
        id=identity_id,
    )


async def unconfirmed(tx: Tx, count: int | None, identity_id: str = "") -> list[str]:
    """Return identities, or this one, whose claims nobody has confirmed for longer than their provider's settings allow."""
    rows = await tx.all(
        "SELECT i.id FROM identities AS i JOIN identity_providers AS p ON p.id = i.provider_id"
        " WHERE i.confirmed_at <= :now - p.confirm_days * 86400.0 AND i.claims <> '{}'"
        " AND (CAST(:id AS text) = '' OR i.id = :id) LIMIT :count",
        now=tx.now,
        id=identity_id,
        count=count or 1,
    )
    return [row["id"] for row in rows]


async def forget_claims(tx: Tx, identity_id: str) -> None:
    await tx.run("UPDATE identities SET claims = '{}' WHERE id = :id", id=identity_id)


async def forget_claims_of_user(tx: Tx, provider_id: str, user_id: str) -> None:
    await tx.run(
        "UPDATE identities SET claims = '{}' WHERE provider_id = :provider_id AND user_id = :user_id",
        provider_id=provider_id,
        user_id=user_id,
    )


# What is used once


async def use(tx: Tx, sha256: str, expires_at: float) -> bool:
    """Note that something was used. Returns False if it was used before."""
    used = await tx.run(
        "INSERT INTO used_identity_tokens (sha256, expires_at) VALUES (:sha256, :expires_at)"
        " ON CONFLICT (sha256) DO NOTHING",
        sha256=sha256,
        expires_at=expires_at,
    )
    return used == 1


async def prune_used(tx: Tx, before: float, count: int) -> int:
    return await delete_some(
        tx, "used_identity_tokens", "expires_at < :before ORDER BY expires_at", before, count, key="sha256"
    )


# The policy of an organization


async def is_required(tx: Tx, organization_id: str) -> bool:
    """Return whether the people of an organization log in by single sign-on only."""
    found = await tx.value(
        "SELECT is_single_sign_on_required FROM login_policies WHERE organization_id = :id", id=organization_id
    )
    return bool(found)


async def set_required(tx: Tx, organization_id: str, is_required: bool) -> None:
    await tx.run(
        "INSERT INTO login_policies (organization_id, is_single_sign_on_required) VALUES (:id, :is_required)"
        " ON CONFLICT (organization_id) DO UPDATE SET is_single_sign_on_required = excluded.is_single_sign_on_required",
        id=organization_id,
        is_required=is_required,
    )
