"""Lets people who are logged in link their own user to their person at a provider of their organization, and remove that link.

The provider has to allow it, because a link is one more way in: whoever has somebody's open session could keep their account with it.
"""

import msgspec

from terracrew.api.sso import LinkedIdentity
from terracrew.errors import Conflict, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import sessions, user_reads
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import arrivals, claims, role_mapping, store
from terracrew.server.identity.sso.arrivals import SignInResult
from terracrew.server.identity.sso.doors import Door
from terracrew.server.identity.sso.model import SignInFailed, StoredProvider, Verified
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.model import Principal


class OwnLinks(msgspec.Struct, frozen=True):
    """What the account page shows of single sign-on."""

    linked: tuple[LinkedIdentity, ...]
    removable: frozenset[str]
    """The ids of the links that the person may remove."""
    offered: tuple[Door, ...]
    """The providers to which the person may link themselves."""


async def show(tx: Tx, who: Principal) -> OwnLinks:
    authorize.require_person(who)
    user = await people.user(tx, who.id)
    linked = await store.linked_of_user(tx, user.id)
    known = {each.provider_id for each in linked}
    allowing = {each.id: each for each in await store.providers(tx, user.organization_id) if each.allows_self_link}
    return OwnLinks(
        tuple(linked),
        frozenset(each.id for each in linked if each.provider_id in allowing),
        tuple(Door(each.id, each.name) for each in allowing.values() if each.is_enabled and each.id not in known),
    )


async def require_allowed(tx: Tx, who: Principal, provider_id: str) -> None:
    """Refuse to begin a link that could not be made."""
    _require_session(who)
    if provider_id not in {each.provider_id for each in (await show(tx, who)).offered}:
        raise Conflict("this provider does not let people link themselves, or you are linked already")


async def link(tx: Tx, who: Principal, provider_id: str, verified: Verified, address: str) -> SignInResult:
    """Link the person who has just logged in at the provider to the user whose session has begun this."""
    provider = await store.hold_provider(tx, provider_id)
    if provider is None or not provider.is_enabled or not provider.allows_self_link:
        return SignInResult(None, None, "this provider does not let people link themselves")
    kept = claims.kept(verified.claims, await arrivals.important_claims(tx, provider))
    try:
        await arrivals.require_admitted(tx, provider, verified.subject, kept)
        user = await people.hold_user(tx, who.id)
        seen_after = tx.now - sessions.IDLE_SECONDS
        if not await people.is_session_open(tx, user.id, who.credential_id or "", seen_after):
            raise SignInFailed("your session has ended: log in again")
        await arrivals.require_may_enter(tx, provider, user)
        identity = await arrivals.link(tx, provider, verified.subject, user, who.id)
    except SignInFailed as failed:
        await store.insert_login(tx, provider.id, verified.subject, None, "refused", failed.reason, kept, address)
        return SignInResult(None, None, failed.reason)
    await store.save_claims(tx, identity.id, kept)
    await role_mapping.apply(tx, provider, [user.id])
    await store.insert_login(tx, provider.id, verified.subject, user.id, "in", "", kept, address)
    await _record(tx, who, "sso.link", provider, {"user": user.name, "subject": verified.subject})
    return SignInResult(None, user)


async def unlink(tx: Tx, who: Principal, identity_id: str) -> None:
    """Remove the caller's own link, with the sessions and the roles that came from it, unless they could not log in any more."""
    _require_session(who)
    seen = await store.find_identity(tx, identity_id)
    provider = None if seen is None or seen.user_id != who.id else await store.hold_provider(tx, seen.provider_id)
    identity = None if provider is None else await store.identity_of_id(tx, identity_id)
    if provider is None or identity is None:
        raise NotFound("there is no such link of yours")
    if not provider.allows_self_link:
        raise Conflict(f"{provider.name} does not let people remove their links: ask an administrator")
    others = [each for each in await store.linked_of_user(tx, who.id) if each.id != identity.id]
    if not others and not await _has_password(tx, who):
        raise Conflict("you could not log in any more: set a password first, which your organization has to allow")
    await people.delete_sessions(tx, await store.sessions_of_identity(tx, identity.id))
    await store.delete_identity(tx, identity.id)
    await role_mapping.apply(tx, provider, [who.id])
    await _record(tx, who, "sso.unlink", provider, {"subject": identity.subject})


async def _has_password(tx: Tx, who: Principal) -> bool:
    """Return whether the person can log in without a provider."""
    found = await people.password_of(tx, who.id)
    has_one = found is not None and found[1] is not None
    return has_one and not await user_reads.must_sign_in_at_provider(tx, who.id)


def _require_session(who: Principal) -> None:
    authorize.require_person(who)
    delegation.require_login(who, "change how its owner logs in")


async def _record(tx: Tx, who: Principal, action: str, provider: StoredProvider, details: dict[str, object]) -> None:
    found = {"provider": provider.name, **details}
    await audit.record(tx, who, action, "provider", provider.id, found, organization_id=provider.organization_id)
    tx.wake("access", provider.organization_id)
    tx.wake("access", who.id)
