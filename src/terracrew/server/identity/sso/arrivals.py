"""Decides which user somebody is who has logged in at a provider, makes the user if that is wanted, and starts the session.

The provider and its `sub` say who it is, and nothing else. A user who has the same name or the same address of e-mail is another person
until somebody links the two.
"""

import re
import unicodedata
from typing import Any

import msgspec

from terracrew.api.access import User
from terracrew.errors import Invalid
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.federation import rules as claims_rules
from terracrew.server.identity.people import logins, sessions, user_reads
from terracrew.server.identity.people import service as people
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.people.sessions import Session
from terracrew.server.identity.sso import claims, mapping, role_mapping, sealing, store
from terracrew.server.identity.sso.model import LinkedPerson, SignInFailed, StoredProvider, Verified
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import organization_store

REFRESH_SECONDS = 3600.0
MIN_REFRESH_SECONDS = 60.0
UNREFRESHED_SESSION_SECONDS = 12 * 3600.0
"""How long a session lasts if the provider gave no refresh token, so that nobody can ask whether the person still exists."""
MAX_NAME_TRIES = 100
ENTRA_HOST = "https://login.microsoftonline.com/"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._+-]+")


class SignInResult(msgspec.Struct, frozen=True):
    """What became of a login: a session, or the reason why there is none."""

    session: Session | None
    user: User | None
    reason: str = ""


async def arrive(tx: Tx, keys: Keyring, provider_id: str, verified: Verified, address: str) -> SignInResult:
    """Let somebody in who has logged in at a provider, or say why not."""
    provider = await store.hold_provider(tx, provider_id)
    if provider is None or not provider.is_enabled:
        return SignInResult(None, None, "this provider is disabled")
    kept = claims.kept(verified.claims, await important_claims(tx, provider))
    try:
        await require_admitted(tx, provider, verified.subject, kept)
        identity, user = await _identity(tx, provider, verified)
    except SignInFailed as failed:
        await store.insert_login(tx, provider.id, verified.subject, None, "refused", failed.reason, kept, address)
        return SignInResult(None, None, failed.reason)
    await store.save_claims(tx, identity.id, kept)
    await role_mapping.apply(tx, provider, [user.id])
    await store.insert_login(tx, provider.id, verified.subject, user.id, "in", "", kept, address)
    tx.wake("access", provider.organization_id)
    lifetime = sessions.SESSION_SECONDS if verified.refresh_token else UNREFRESHED_SESSION_SECONDS
    session = await logins.start_session(tx, user, f"login at {provider.name}", address, lifetime)
    sealed = sealing.seal_refresh_token(keys, session.id, verified.refresh_token) if verified.refresh_token else None
    due_at = next_refresh(tx.now, verified.refresh_expires_in) if sealed is not None else None
    await store.insert_session(tx, session.id, identity, verified.sid, sealed, due_at)
    return SignInResult(session, user)


async def important_claims(tx: Tx, provider: StoredProvider) -> set[str]:
    """Return the claims that something depends on, so that they are kept first."""
    named = {each.claim for each in await store.rules(tx, provider.id)}
    own = {provider.groups_claim, provider.name_claim, provider.admit_claim}
    return {*own, *named, "sub", "iss", mapping.EMAIL_VERIFIED} - {""}


async def _identity(tx: Tx, provider: StoredProvider, verified: Verified) -> tuple[LinkedPerson, User]:
    identity = await store.identity(tx, provider.id, verified.subject)
    if identity is None and (known := await _provisioned(tx, provider, verified)) is not None:
        return await link(tx, provider, verified.subject, known, SYSTEM.id), known
    if identity is None and not provider.makes_users:
        raise SignInFailed(
            f"{provider.name} knows you, but no user here is linked to you: ask an administrator of the organization"
        )
    if identity is None:
        user = await _new_user(tx, provider, verified)
        return await store.insert_identity(tx, provider.id, verified.subject, user.id, SYSTEM.id), user
    user = await people_store.hold_user(tx, identity.user_id)
    await require_may_enter(tx, provider, user)
    return identity, user


async def _provisioned(tx: Tx, provider: StoredProvider, verified: Verified) -> User | None:
    """Return the user whom the organization's identity provider has made for this person.

    The owners have said that the people of the provider are those of the provisioner. Both know the person by an id that nobody
    chooses: `sub`, or `oid` at Entra ID, where `sub` is another one for each application.
    """
    found = [verified.subject]
    if provider.issuer.startswith(ENTRA_HOST) and isinstance(oid := verified.claims.get("oid"), str):
        found.append(oid)
    user_id = await store.provisioned_user(tx, provider.id, found)
    if user_id is None:
        return None
    user = await people_store.hold_user(tx, user_id)
    # The provisioner decides about that id, and nobody has trusted it with more than the owners may do by themselves.
    await require_may_enter(tx, msgspec.structs.replace(provider, is_trusted=False), user)
    return user


def is_admitted(provider: StoredProvider, kept: dict[str, Any]) -> bool:
    """Return whether a person with these claims, as they are stored, has the one that the provider's settings ask for."""
    return not provider.admit_claim or any(
        mapping.is_match(each, provider.admit_value, is_pattern=True)
        for each in mapping.values(kept, provider.admit_claim)
    )


async def require_admitted(tx: Tx, provider: StoredProvider, subject: str, kept: dict[str, Any]) -> None:
    """Refuse a person who does not have the claim that the provider's settings ask for.

    Who had it before loses the roles by rules at once: their API tokens could use them for as long as claims count.
    """
    if is_admitted(provider, kept):
        return
    identity = await store.identity(tx, provider.id, subject)
    if identity is not None:
        await role_mapping.forget(tx, provider, identity)
    raise SignInFailed(f"only people whose claim {provider.admit_claim} is {provider.admit_value} may log in here")


async def require_may_enter(tx: Tx, provider: StoredProvider, user: User) -> None:
    """Refuse to let a provider of an organization log in somebody who may do more than its owners could do by themselves.

    The owners of an organization decide who their provider says that somebody is. So it stands for users of that organization only,
    and for none who has roles elsewhere or administers the server, unless such administrators trust the provider.
    """
    if user.organization_id != provider.organization_id:
        raise SignInFailed("this user belongs to another organization")
    if user.is_disabled:
        raise SignInFailed(f"{user.name} is disabled: ask an administrator of the organization")
    if provider.is_trusted:
        return
    if user.is_system_admin:
        raise SignInFailed(
            "administrators of the server log in with a password, unless they have made this provider a trusted one"
        )
    if await user_reads.is_member_elsewhere(tx, user.id, user.organization_id):
        raise SignInFailed(
            "people with roles in several organizations log in with a password, unless the administrators of the server trust "
            "this provider"
        )


async def link(tx: Tx, provider: StoredProvider, subject: str, user: User, by: str) -> LinkedPerson:
    """Link a person of a provider to a user. The caller has checked who may do that."""
    identity = await store.identity(tx, provider.id, subject)
    if identity is not None:
        if identity.user_id == user.id:
            return identity
        raise SignInFailed("another user is linked to this person already")
    if any(each.provider_id == provider.id for each in await store.linked_of_user(tx, user.id)):
        raise SignInFailed(
            f"{user.name} is linked to another person of {provider.name} already: remove that link first"
        )
    return await store.insert_identity(tx, provider.id, subject, user.id, by)


async def _new_user(tx: Tx, provider: StoredProvider, verified: Verified) -> User:
    name = await free_name(tx, provider, verified)
    user = await people_store.insert_user(tx, provider.organization_id, name, is_system_admin=False)
    details = {"name": name, "is_system_admin": False, "provider": provider.name, "subject": verified.subject}
    await audit.record(tx, SYSTEM, "user.create", "user", user.id, details, organization_id=provider.organization_id)
    return user


async def free_name(tx: Tx, provider: StoredProvider, verified: Verified) -> str:
    """Return a name for a new user that nobody has. Nobody becomes another person by having the same name at the provider."""
    given = mapping.texts(claims_rules.claim(verified.claims, provider.name_claim)) if provider.name_claim else ()
    found = await free_user_name(tx, provider.organization_id, given[0] if given else verified.subject)
    if found is None:
        raise SignInFailed("no free name was found for a user like you: ask an administrator to link you to a user")
    return found


async def free_user_name(tx: Tx, organization_id: str, wanted: str) -> str | None:
    """Return a name like this one that no user has, and that users of this organization may have."""
    organization = await organization_store.find(tx, organization_id)
    first = await organization_store.first(tx)
    is_first = organization is None or first is None or organization.id == first.id
    local, domain = cleaned(wanted)
    end = (f"@{domain}" if domain else "") if is_first else f"@{organization.name if organization else ''}"
    for number in range(1, MAX_NAME_TRIES):
        name = f"{local[: 90 - len(end)]}{'' if number == 1 else f'-{number}'}{end}"
        try:
            people.check_name(name)
            await people.check_name_in(tx, organization_id, name)
        except Invalid:
            if number == 1:
                continue
            local = "person"
            continue
        if await people_store.find_user(tx, name) is None:
            return name
    return None


def cleaned(name: str) -> tuple[str, str]:
    """Return what stands before the `@` and the domain after it, of letters that a user's name may have."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    local, _, domain = plain.partition("@")
    local = _NOT_IN_NAMES.sub("-", local).strip("-._+")
    domain = _NOT_IN_NAMES.sub("", domain)[:60].strip("-._+")
    if not local or local.startswith("usr_") or len(local) > 90:
        local = f"person-{local[:40].replace('_', '-')}".strip("-")
    return local, domain if "." in domain else ""


def next_refresh(now: float, refresh_expires_in: float | None) -> float:
    """Return when to ask again: every hour, or earlier if the provider's refresh token ends earlier."""
    wait = REFRESH_SECONDS
    if refresh_expires_in is not None and refresh_expires_in > 0:
        wait = min(wait, max(MIN_REFRESH_SECONDS, refresh_expires_in / 2))
    return now + wait
