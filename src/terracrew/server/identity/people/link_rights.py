"""Decides whether a one-time link still counts. A link gives control of an account, so its maker must still be allowed to give it.

A link that was made for a viewer would otherwise make an administrator of its maker as soon as the viewer becomes one.
"""

from terracrew.api.access import User
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import acting, store, user_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM


async def owner(tx: Tx, token_sha256: str) -> User | None:
    """Return the user whom a link logs in; None for a link that is used up, expired, wrong or no longer counts."""
    found = await store.link(tx, token_sha256)
    if found is None or not await _may_give(tx, found[1], found[0]):
        return None
    return found[0]


async def end_uncovered_link(tx: Tx, user_id: str) -> None:
    """End the link of a user whose rights have just grown, if its maker may no longer give somebody the account."""
    user = await store.user(tx, user_id)
    for maker_id in await store.link_makers(tx, user.id):
        if not await _may_give(tx, maker_id, user):
            await store.delete_links_of(tx, user.id)


async def _may_give(tx: Tx, maker_id: str, user: User) -> bool:
    """Return whether the maker of a link may now give control of the account, by the rules for the reset of a user."""
    if maker_id in (SYSTEM.id, user.id):
        return True
    maker = await acting.principal(tx, maker_id, user.organization_id)
    if maker is None:
        return False
    if maker.is_system_admin:
        return True
    if user.is_system_admin or await user_reads.is_member_elsewhere(tx, user.id, user.organization_id):
        return False
    place = authorize.organization(user.organization_id)
    return (await authorize.decide(tx, maker, Verb.ACCESS_WRITE, place)).is_allowed
