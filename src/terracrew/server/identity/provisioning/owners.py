"""What the owners of an organization decide: which service account provisions its people, and which users it takes over."""

import msgspec

from terracrew.api.pages import Page
from terracrew.api.provisioning import (
    AdoptPerson,
    NewProvisioner,
    ProvisionedGroupListed,
    ProvisionedListed,
    Provisioner,
    ProvisionerDetails,
)
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import roles, subjects
from terracrew.server.identity.access import service as accounts
from terracrew.server.identity.access import store as account_store
from terracrew.server.identity.people import oversight, user_reads
from terracrew.server.identity.provisioning import model, service, store
from terracrew.server.identity.provisioning.model import PersonData, ProvisionedPerson
from terracrew.server.identity.sso import store as sso_store
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


async def show(tx: Tx, who: Principal, base: str) -> ProvisionerDetails:
    organization_id = await _require_reader(tx, who)
    found = await store.provisioner(tx, organization_id)
    if found is None:
        raise NotFound("no service account provisions the people of this organization")
    account = await account_store.find_account(tx, found.service_account_id)
    provider = await sso_store.provider(tx, found.provider_id) if found.provider_id else None
    people, groups = await store.count(tx, organization_id)
    return ProvisionerDetails(
        **msgspec.structs.asdict(found),
        address=base,
        account="" if account is None else account.path,
        provider="" if provider is None else provider.name,
        people=people,
        groups=groups,
    )


async def choose(tx: Tx, who: Principal, wanted: NewProvisioner, base: str) -> ProvisionerDetails:
    """Let a service account provision the people of the organization, instead of the one that did.

    It decides who may log in, so only a person may name it whose own right does not end.
    """
    organization_id = await _require_owner(tx, who)
    account = await accounts.find(tx, who, wanted.service_account, Verb.ACCESS_WRITE)
    if account.group:
        raise Invalid.in_field(
            "service_account", f"{account.path} belongs to a group: make a service account of the organization itself"
        )
    provider_id = None
    if wanted.provider:
        known = await sso_store.providers(tx, organization_id)
        provider = next((each for each in known if wanted.provider in (each.id, each.name)), None)
        if provider is None:
            raise Invalid.in_field("provider", f"there is no provider {wanted.provider[:100]!r} here")
        if provider.is_trusted:  # the account would decide as whom people log in there
            await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
        provider_id = provider.id
    await store.hold_provisioner(tx, organization_id)
    await store.set_provisioner(tx, Provisioner(organization_id, account.id, provider_id, who.id, tx.moment))
    details: dict[str, object] = {"account": account.name}
    await audit.record(tx, who, "provisioning.set", "service_account", account.id, details)
    return await show(tx, who, base)


async def remove(tx: Tx, who: Principal) -> None:
    """Let nobody provision the organization any more. People, groups and the roles by them stay as they are."""
    organization_id = await _require_owner(tx, who)
    before = await store.hold_provisioner(tx, organization_id)
    if before is None:
        raise NotFound("no service account provisions the people of this organization")
    await store.delete_provisioner(tx, organization_id)
    await audit.record(tx, who, "provisioning.remove", "service_account", before.service_account_id, {})


async def adopt(tx: Tx, who: Principal, wanted: AdoptPerson) -> ProvisionedListed:
    """Let the identity provider manage a user that exists already. Nobody is taken over because of a name alone."""
    organization_id = await _require_owner(tx, who)
    if await store.hold_provisioner(tx, organization_id) is None:
        raise Conflict("name the service account first: `terracrew provisioning set ACCOUNT`")
    user = await oversight.person(tx, who, wanted.user, Verb.ACCESS_WRITE, is_self_enough=False)
    if user.organization_id != organization_id:
        raise Conflict(f"{user.name} belongs to another organization")
    if user.is_system_admin:
        raise Conflict(f"{user.name} is an administrator of the server, whom no identity provider manages")
    if await user_reads.is_member_elsewhere(tx, user.id, organization_id):
        await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    if await store.is_managed(tx, user.id):
        raise Conflict(f"the identity provider manages {user.name} already")
    user_name = wanted.user_name or user.name
    for field, text in (("user_name", user_name), ("external_id", wanted.external_id)):
        if len(text) > model.MAX_TEXT_CHARACTERS or not text.isprintable():
            raise Invalid.in_field(field, f"write at most {model.MAX_TEXT_CHARACTERS} printable characters")
    if await store.person_named(tx, organization_id, user_name.casefold()) is not None:
        raise Conflict(f"there is a person with the userName {user_name!r} already")
    data = PersonData(user_name, wanted.external_id)
    made = ProvisionedPerson.new(user.id, organization_id, data, tx.moment)
    await store.insert_person(tx, made)
    await audit.record(tx, who, "provisioning.adopt", "user", user.id, {"name": user.name, "user_name": user_name})
    return ProvisionedListed(
        user.id,
        user.name,
        user_name,
        wanted.external_id,
        user.is_disabled,
        is_deleted=False,
        groups=(),
        changed_at=tx.moment,
    )


async def release(tx: Tx, who: Principal, reference: str) -> None:
    """Let owners manage a user again instead of the identity provider. The user stays as they are, without its groups."""
    organization_id = await _require_owner(tx, who)
    await store.hold_provisioner(tx, organization_id)
    user = await subjects.find(tx, organization_id, reference)
    if not await store.is_managed(tx, user.id):
        raise NotFound(f"the identity provider does not manage {user.name}")
    await store.delete_person(tx, user.id)
    await audit.record(tx, who, "provisioning.release", "user", user.id, {"name": user.name})
    await service.apply_groups(tx, organization_id, [user.id])


async def list_people(tx: Tx, who: Principal, after: str | None, limit: int) -> Page[ProvisionedListed]:
    organization_id = await _require_reader(tx, who)
    return page(await store.listing(tx, organization_id, start(after), limit + 1), limit)


async def list_groups(tx: Tx, who: Principal, after: str | None, limit: int) -> Page[ProvisionedGroupListed]:
    organization_id = await _require_reader(tx, who)
    return page(await store.listed_groups(tx, organization_id, start(after), limit + 1), limit)


async def provider_names(tx: Tx, who: Principal) -> list[str]:
    """Return the names of the providers of single sign-on of the organization."""
    return [each.name for each in await sso_store.providers(tx, await _require_reader(tx, who))]


async def _require_reader(tx: Tx, who: Principal) -> str:
    await authorize.require(tx, who, Verb.ACCESS_READ, authorize.organization(who.organization_id))
    return who.organization_id or ""


async def _require_owner(tx: Tx, who: Principal) -> str:
    place = authorize.organization(who.organization_id)
    await authorize.require(tx, who, Verb.ACCESS_WRITE, place)
    delegation.require_login(who, "decide who provisions people, because that outlives every token")
    if await roles.right_ends_at(tx, who, place) is not None:
        raise Forbidden("your own role ends, and what you decide here would outlive it: ask another owner")
    return who.organization_id or ""
