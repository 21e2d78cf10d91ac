"""Rows of single sign-on without a provider that answers: a provider with a rule, a person who has logged in, and logins."""

from typing import Any

from terracrew import ids
from terracrew.api.access import Role
from terracrew.api.sso import MappingRule
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import logins
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import role_mapping, sealing, store
from terracrew.server.identity.sso.model import StoredProvider
from terracrew.server.secrets.keyring import Keyring

ISSUER = "https://id.example.com/realms/acme"
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "00u1f2",
    "preferred_username": "priya",
    "groups": ["platform-admins", "everyone"],
    "department": "payments",
}


async def insert_provider(
    tx: Tx, organization_id: str, name: str = "Keycloak", *, is_enabled: bool = True, **more: Any
) -> StoredProvider:
    made = StoredProvider(
        id=more.pop("id", None) or ids.new("idp"),
        organization_id=organization_id,
        name=name,
        issuer=more.pop("issuer", ISSUER),
        client_id="crew",
        is_enabled=is_enabled,
        created_by="usr_x",
        created_at=tx.moment,
        **more,
    )
    await store.insert_provider(tx, made)
    return made


async def insert_rule(
    tx: Tx, provider_id: str, group_id: str, value: str, role: Role, claim: str = "groups", *, is_pattern: bool = False
) -> str:
    made = MappingRule(ids.new("irl"), claim, is_pattern, value, role, "")
    await store.insert_rule(tx, provider_id, made, group_id, None, "usr_x")
    await store.note_rules_changed(tx, provider_id)
    return made.id


async def log_in(tx: Tx, provider_id: str, user_id: str, claims: dict[str, Any]) -> str:
    """Link a user, as a login does that brings these claims; return the id of the identity."""
    provider = await store.hold_provider(tx, provider_id)
    assert provider is not None
    made = await store.insert_identity(tx, provider_id, claims["sub"], user_id, user_id)
    await store.save_claims(tx, made.id, claims)
    await role_mapping.apply(tx, provider, [user_id])
    await store.insert_login(tx, provider_id, claims["sub"], user_id, "in", "", claims, "192.0.2.7")
    return made.id


async def insert_secrets(tx: Tx, keys: Keyring, organization_id: str, user_id: str) -> None:
    """Make a provider with a client secret, and a session with a refresh token."""
    sealed = sealing.seal_client_secret(keys, provider_id := ids.new("idp"), "secret")
    made = await insert_provider(tx, organization_id, "Kept", id=provider_id, sealed=sealed)
    await log_in(tx, made.id, user_id, CLAIMS)
    found = await store.identity(tx, made.id, CLAIMS["sub"])
    assert found is not None
    session = await logins.start_session(tx, await people_store.user(tx, user_id), "a login", "192.0.2.7")
    token = sealing.seal_refresh_token(keys, session.id, "refresh")
    await store.insert_session(tx, session.id, found, "", token, None)
