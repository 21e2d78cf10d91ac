"""Whether the people of an organization log in by single sign-on only. Its local administrators always get in with their passwords."""

from terracrew.api.sso import LoginPolicy
from terracrew.errors import Conflict
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import local_administrators
from terracrew.server.identity.sso import store
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.wording import sso_words


async def show(tx: Tx, who: Principal) -> LoginPolicy:
    await authorize.require(tx, who, Verb.ACCESS_READ, authorize.organization(who.organization_id))
    return LoginPolicy(await store.is_required(tx, who.organization_id or ""))


async def change(tx: Tx, who: Principal, wanted: LoginPolicy) -> LoginPolicy:
    organization_id = who.organization_id or ""
    await authorize.require(tx, who, Verb.ACCESS_WRITE, authorize.organization(who.organization_id))
    delegation.require_login(who, "decide how people log in")
    if wanted.is_single_sign_on_required:
        if not any(each.is_enabled for each in await store.providers(tx, organization_id)):
            raise Conflict("no provider is enabled: nobody could log in. Create one, try it, and enable it first")
        await local_administrators.require_one(tx, organization_id)
    await store.set_required(tx, organization_id, wanted.is_single_sign_on_required)
    said = sso_words.policy(is_required=wanted.is_single_sign_on_required)
    await audit.record(tx, who, "sso.policy", "organization", organization_id, {"policy": said})
    return wanted
