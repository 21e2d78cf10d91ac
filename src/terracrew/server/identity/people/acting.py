"""Finds the principal as which somebody acts who is known by an id only, because the server continues what they have begun."""

import msgspec

from terracrew.api.access import User
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import sessions, store, user_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM, Principal


async def principal(tx: Tx, actor_id: str, organization_id: str) -> Principal | None:
    """Return a user or service account as it acts in the organization; None if it no longer exists, is disabled or cannot act there."""
    user = await store.find_user(tx, actor_id)
    if user is not None and user.id == actor_id:
        acting = msgspec.structs.replace(sessions.person(user, None), organization_id=organization_id)
        return None if user.is_disabled else acting
    account = await user_reads.enabled_account(tx, actor_id)
    if account is None or account["organization_id"] != organization_id:
        return None
    return Principal("service_account", actor_id, account["name"], organization_id)


async def member(tx: Tx, name_or_id: str, organization_id: str) -> User | None:
    """Return a user who can act in the organization."""
    user = await store.find_user(tx, name_or_id)
    if user is None or user.is_disabled:
        return None
    is_member = user.organization_id == organization_id or await user_reads.has_role_in(tx, user.id, organization_id)
    return user if is_member else None


async def may_act_for(tx: Tx, who: Principal, user: User) -> bool:
    """Return whether somebody may give control of the account of a user, or let somebody else act as them."""
    return await _may_give(tx, who.id, user)


async def owner(tx: Tx, token_sha256: str) -> User | None:
    """Return the user whom a link logs in; None for a link that is used up, expired, wrong or no longer counts."""
    found = await store.link(tx, token_sha256)
    if found is None or not await _may_give(tx, found[1], found[0]):
        return None
    return found[0]


async def end_uncovered_logins(tx: Tx, user_id: str) -> None:
    """End what others could use to act as a user whose rights have just grown beyond the organization: the link of a maker who may no
    longer give somebody the account, and the sessions that a provider of the organization began without being trusted with that."""
    user = await store.hold_user(tx, user_id)  # a login that is under way is over now, or sees the new rights
    if user.is_system_admin or await user_reads.is_member_elsewhere(tx, user.id, user.organization_id):
        await store.delete_sessions(tx, await user_reads.sessions_of_untrusted_providers(tx, user.id))
    for maker_id in await store.link_makers(tx, user.id):
        if not await _may_give(tx, maker_id, user):
            await store.delete_links_of(tx, user.id)


async def _may_give(tx: Tx, maker_id: str, user: User) -> bool:
    """Return whether the maker of a link may now give control of the account, by the rules for the reset of a user."""
    if maker_id in (SYSTEM.id, user.id):
        return True
    maker = await principal(tx, maker_id, user.organization_id)
    if maker is None:
        return False
    if maker.is_system_admin:
        return True
    if user.is_system_admin or await user_reads.is_member_elsewhere(tx, user.id, user.organization_id):
        return False
    place = authorize.organization(user.organization_id)
    return (await authorize.decide(tx, maker, Verb.ACCESS_WRITE, place)).is_allowed
