"""The organizations that a principal may act in, and the choice of one of them for a request or a session."""

import msgspec

from terracrew.api.access import Role
from terracrew.api.groups import Organization, OrganizationDetails
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Invalid
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_store, roles
from terracrew.server.identity.people import store
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import organization_store
from terracrew.server.tree.groups import organizations as service

HEADER = "Terracrew-Organization"
"""The header by which a request names the organization that it is about."""
MAX_LISTED = 200
"""How many organizations are listed for somebody to choose from."""


async def act_in(db: Database, who: Principal, reference: str) -> Principal:
    """Return the same principal, acting in the organization that the request names.

    A user may act in their own organization and wherever they have a role, an administrator in all of them, and every other
    principal in its own only. An organization that the principal may not act in does not exist for it.
    """

    async def read(tx: Tx) -> str:
        return (await _entered(tx, who, reference)).id

    return msgspec.structs.replace(who, organization_id=await db.read(read), is_organization_chosen=True)


async def require_same(db: Database, who: Principal, shown_id: str) -> None:
    """Refuse a change by a page of an organization that the session no longer acts in, because another tab has switched."""
    if shown_id == (who.organization_id or ""):
        return

    async def read(tx: Tx) -> tuple[Organization | None, Organization | None]:
        return await organization_store.find(tx, shown_id), await organization_store.find(tx, who.organization_id or "")

    shown, now = await db.read(read)
    raise Conflict(
        f"this page shows {shown.name if shown else 'an organization that was deleted'}, but you have switched to "
        f"{now.name if now else 'another organization'} in another tab, so nothing was changed: reload the page, or switch back"
    )


async def _entered(tx: Tx, who: Principal, reference: str) -> Organization:
    found = await organization_store.find(tx, reference)
    if found is None or not await _may_enter(tx, who, found.id):
        raise service.unseen(reference)
    return found


async def _may_enter(tx: Tx, who: Principal, organization_id: str) -> bool:
    if who.organization_id == organization_id or who.is_system_admin:
        return True
    if who.kind != "user":
        return False
    home = await store.find_user(tx, who.id)
    is_home = home is not None and home.organization_id == organization_id
    return is_home or await role_store.is_member(tx, who.id, organization_id)


async def choose_for_session(tx: Tx, who: Principal, reference: str) -> Organization:
    """Let the caller's session act in an organization from now on."""
    if who.credential != "session" or who.credential_id is None:
        raise Invalid(f"only a session in a browser has an organization of its own: send the header {HEADER}")
    found = await _entered(tx, who, reference)
    await store.set_session_organization(tx, who.credential_id, found.id)
    return found


async def listing(tx: Tx, who: Principal, after: str | None, limit: int) -> Page[Organization]:
    """Return the organizations that the caller may act in."""
    if who.is_system_admin:
        return page(await organization_store.every(tx, start(after), limit + 1), limit)
    authorize.require_reader(who)
    home = await store.find_user(tx, who.id) if who.kind == "user" else None
    home_id = home.organization_id if home else who.organization_id
    return page(await organization_store.of_principal(tx, who.id, home_id, start(after), limit + 1), limit)


async def show(tx: Tx, who: Principal, reference: str) -> OrganizationDetails:
    """Return an organization that the caller may act in. Its numbers are for its owners and for administrators."""
    authorize.require_reader(who)
    found = await _entered(tx, who, reference)
    there = msgspec.structs.replace(who, organization_id=found.id)
    decision = await authorize.decide(tx, there, Verb.ACCESS_READ, authorize.organization(found.id))
    contents = await organization_store.contents(tx, found.id) if decision.is_allowed else {}
    return OrganizationDetails(found.id, found.name, found.created_at, contents)


async def create(tx: Tx, who: Principal, name: str, owner: str | None) -> Organization:
    """Create an organization and, if an owner is named, give that user the role of its owner."""
    made = await service.create(tx, who, name)
    if owner is not None:
        there = msgspec.structs.replace(who, organization_id=made.id)
        await roles.bind_role(tx, there, owner, Role.OWNER, "", "group")
    return made


async def delete(tx: Tx, who: Principal, reference: str) -> None:
    """Delete an empty organization. Sessions that act in it act in the organization of their user again."""
    found = await service.find(tx, reference) if who.is_system_admin else None
    if found is not None and who.organization_id == found.id:
        raise Conflict(f"you act in {found.name}: choose another organization first")
    gone = await service.delete(tx, who, reference)
    await store.forget_organization(tx, gone.id)
    tx.wake("roles", "")
