"""What an identity provider may do: create, change and deactivate the people and groups of its organization, and nothing else.

Invariant: a change holds the row of the organization's provisioner, so that two changes of one organization follow each other, and
roles by groups are always those that follow from the last change.
"""

from collections.abc import Callable, Collection, Iterable

import msgspec

from terracrew import ids
from terracrew.api.access import User
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import local_administrators
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.provisioning import model, store
from terracrew.server.identity.provisioning.model import (
    GroupData,
    GroupSeen,
    Lookup,
    PersonData,
    PersonSeen,
    ProvisionedGroup,
    ProvisionedPerson,
)
from terracrew.server.identity.sso import arrivals, role_mapping
from terracrew.server.identity.sso import store as sso_store
from terracrew.server.principals.model import Principal


async def require(tx: Tx, who: Principal) -> str:
    """Refuse everybody but the provisioner of the organization, which is returned. Owners and administrators use the API."""
    organization_id = who.organization_id or ""
    found = await store.provisioner(tx, organization_id)
    _check(who, found is not None and found.service_account_id == who.id)
    return organization_id


async def _hold(tx: Tx, who: Principal) -> str:
    organization_id = who.organization_id or ""
    found = await store.hold_provisioner(tx, organization_id)
    _check(who, found is not None and found.service_account_id == who.id)
    return organization_id


def _check(who: Principal, is_named: bool) -> None:
    if who.kind != "service_account" or not is_named:
        raise Forbidden(
            "only the service account that provisions the people of its organization may do this: an owner names it with "
            "`terracrew provisioning set ACCOUNT`"
        )


# People


async def show_person(tx: Tx, who: Principal, user_id: str) -> PersonSeen:
    organization_id = await require(tx, who)
    return await _seen(tx, organization_id, user_id)


async def list_people(tx: Tx, who: Principal, wanted: Lookup, offset: int, limit: int) -> tuple[int, list[PersonSeen]]:
    return await store.people(tx, await require(tx, who), wanted, offset, limit)


async def create_person(tx: Tx, who: Principal, wanted: PersonData) -> PersonSeen:
    """Create a user, who has no password and no link: people log in by single sign-on, or an owner sends them a link.

    Somebody who was deleted before and has the same external id is the same user again.
    """
    organization_id = await _hold(tx, who)
    await _require_free(tx, organization_id, wanted.user_name, "")
    if (await store.count(tx, organization_id))[0] >= model.MAX_PEOPLE:
        raise Conflict(f"there are {model.MAX_PEOPLE:,} people already")
    before = await store.deleted_person(tx, organization_id, wanted.external_id)
    if before is not None:
        return await _save(tx, who, before, wanted)
    name = await _free_name(tx, organization_id, wanted.user_name)
    user = await people_store.insert_user(tx, organization_id, name, is_system_admin=False)
    await audit.record(tx, who, "user.create", "user", user.id, {"name": name, "is_system_admin": False})
    await store.insert_person(tx, ProvisionedPerson.new(user.id, organization_id, wanted, tx.moment))
    if not wanted.is_active:
        await _set_active(tx, who, user, is_active=False)
    return await _seen(tx, organization_id, user.id)


async def change_person(tx: Tx, who: Principal, user_id: str, decide: Callable[[PersonSeen], PersonData]) -> PersonSeen:
    """Make a person what the identity provider wants. `decide` says it from what is there, so that no change gets lost."""
    organization_id = await _hold(tx, who)
    before = await _person(tx, organization_id, user_id)
    return await _save(tx, who, before, decide(await _seen(tx, organization_id, user_id)))


async def delete_person(tx: Tx, who: Principal, user_id: str) -> None:
    """Deactivate a person, who leaves all groups. The user stays, disabled, with everything that they have done."""
    organization_id = await _hold(tx, who)
    before = await _person(tx, organization_id, user_id)
    user = await _manageable(tx, user_id)
    await _set_active(tx, who, user, is_active=False)
    await store.leave_groups(tx, user_id)
    await store.save_person(tx, msgspec.structs.replace(before, deleted_at=tx.moment, changed_at=tx.moment))
    await audit.record(tx, who, "provisioning.delete_user", "user", user_id, {"name": user.name})
    await apply_groups(tx, organization_id, [user_id])


async def _save(tx: Tx, who: Principal, before: ProvisionedPerson, wanted: PersonData) -> PersonSeen:
    organization_id = before.organization_id
    await _require_free(tx, organization_id, wanted.user_name, before.user_id)
    user = await _manageable(tx, before.user_id)
    after = ProvisionedPerson.new(user.id, organization_id, wanted, tx.moment)
    after = msgspec.structs.replace(after, created_at=before.created_at)
    changed = [
        field
        for field in ("user_name", "external_id", "display_name", "name", "emails", "deleted_at")
        if getattr(before, field) != getattr(after, field)
    ]
    if changed:
        await store.save_person(tx, after)
        details = {"name": user.name, "changed": ", ".join(changed)}
        await audit.record(tx, who, "provisioning.change_user", "user", user.id, details)
    if before.user_name_key != after.user_name_key:
        await _rename(tx, who, user, wanted.user_name)
    if wanted.is_active is user.is_disabled:
        await _set_active(tx, who, user, is_active=wanted.is_active)
    return await _seen(tx, organization_id, user.id)


async def _rename(tx: Tx, who: Principal, user: User, user_name: str) -> None:
    name = await _free_name(tx, user.organization_id, user_name)
    await people_store.rename(tx, user.id, name)
    await audit.record(tx, who, "user.rename", "user", user.id, {"name": name, "before": user.name})
    tx.wake("access", user.id)


async def _set_active(tx: Tx, who: Principal, user: User, *, is_active: bool) -> None:
    """Enable a user, or disable them: everything with which they could act ends in this transaction, and does not come back."""
    if user.is_disabled is not is_active:
        return
    details: dict[str, object] = {"name": user.name}
    async with local_administrators.kept(tx, user.organization_id):
        await people_store.set_disabled(tx, user.id, not is_active)
    if not is_active:
        details["sessions"] = await people_store.delete_sessions_of(tx, user.id)
        details["tokens"] = await people_store.delete_tokens_of(tx, user.id)
        await people_store.delete_links_of(tx, user.id)
        await people_store.clear_password(tx, user.id)
    await audit.record(tx, who, "user.enable" if is_active else "user.disable", "user", user.id, details)
    tx.wake("access", user.id)


async def _manageable(tx: Tx, user_id: str) -> User:
    """Return a user whom an identity provider may change. Administrators of the server stand above every organization."""
    user = await people_store.user(tx, user_id)
    if user.is_system_admin:
        raise Forbidden(f"{user.name} is an administrator of the server, whom no identity provider manages")
    return user


async def _require_free(tx: Tx, organization_id: str, user_name: str, own_id: str) -> None:
    other = await store.person_named(tx, organization_id, user_name.casefold())
    if other is not None and other.user_id != own_id:
        raise Conflict(f"there is a person with the userName {user_name!r} already")


async def _person(tx: Tx, organization_id: str, user_id: str) -> ProvisionedPerson:
    found = await store.person(tx, organization_id, user_id)
    if found is None:
        raise NotFound(f"there is no user {user_id}")
    return found


async def _seen(tx: Tx, organization_id: str, user_id: str) -> PersonSeen:
    _, found = await store.people(tx, organization_id, Lookup(resource_id=user_id), 0, 1)
    if not found:
        raise NotFound(f"there is no user {user_id}")
    return found[0]


async def _free_name(tx: Tx, organization_id: str, user_name: str) -> str:
    """Return a name for a user that nobody has. Nobody becomes another person by having the same name elsewhere."""
    name = await arrivals.free_user_name(tx, organization_id, user_name)
    if name is None:
        raise Conflict(f"no free name was found for a user like {user_name!r}")
    return name


async def apply_groups(
    tx: Tx, organization_id: str, user_ids: Iterable[str], names: Collection[str] | None = None
) -> None:
    """Give these people the roles that follow from their groups, by the rules of every provider of the organization.

    `names` are those of the groups that have changed, if no others have: where no rule is about one of them, nothing follows, and a
    group can have thousands of members.
    """
    affected = sorted(set(user_ids))
    if not affected:
        return
    for each in await sso_store.providers(tx, organization_id):
        provider = await sso_store.hold_provider(tx, each.id)
        if provider is not None and (names is None or await role_mapping.has_rule_about(tx, provider, names)):
            await role_mapping.apply(tx, provider, affected)


def _names(*groups: ProvisionedGroup) -> set[str]:
    """Return what rules compare of groups."""
    return {text for each in groups for text in (each.display_name, each.external_id) if text}


# Groups


async def show_group(tx: Tx, who: Principal, group_id: str, *, has_members: bool = True) -> GroupSeen:
    return await _seen_group(tx, await require(tx, who), group_id, has_members=has_members)


async def list_groups(
    tx: Tx, who: Principal, wanted: Lookup, offset: int, limit: int, *, has_members: bool
) -> tuple[int, list[GroupSeen]]:
    return await store.groups(tx, await require(tx, who), wanted, offset, limit, has_members=has_members)


async def create_group(tx: Tx, who: Principal, wanted: GroupData) -> GroupSeen:
    organization_id = await _hold(tx, who)
    if (await store.count(tx, organization_id))[1] >= model.MAX_GROUPS:
        raise Conflict(f"there are {model.MAX_GROUPS:,} groups already")
    made = ProvisionedGroup(
        ids.new("pgr"),
        organization_id,
        wanted.display_name,
        wanted.display_name.casefold(),
        wanted.external_id,
        tx.moment,
        tx.moment,
    )
    await store.insert_group(tx, made)
    added = await _set_members(tx, made, wanted.members)
    details = {"name": made.display_name, "members": len(added)}
    await audit.record(tx, who, "provisioning.create_group", "provisioned_group", made.id, details)
    await apply_groups(tx, organization_id, added, _names(made))
    return await _seen_group(tx, organization_id, made.id)


async def change_group(tx: Tx, who: Principal, group_id: str, decide: Callable[[GroupSeen], GroupData]) -> GroupSeen:
    """Make a group what the identity provider wants. Roles that its members have or had by it follow at once."""
    organization_id = await _hold(tx, who)
    before = await _group(tx, organization_id, group_id)
    wanted = decide(await _seen_group(tx, organization_id, group_id))
    after = msgspec.structs.replace(
        before,
        display_name=wanted.display_name,
        display_name_key=wanted.display_name.casefold(),
        external_id=wanted.external_id,
        changed_at=tx.moment,
    )
    is_renamed = (before.display_name, before.external_id) != (after.display_name, after.external_id)
    changed = await _set_members(tx, before, wanted.members)
    if is_renamed or changed:
        await store.save_group(tx, after)
        details: dict[str, object] = {"name": after.display_name, "members": len(changed)}
        if before.display_name != after.display_name:
            details["before"] = before.display_name
        await audit.record(tx, who, "provisioning.change_group", "provisioned_group", group_id, details)
    affected = {*changed, *wanted.members} if is_renamed else set(changed)
    await apply_groups(tx, organization_id, affected, _names(before, after))
    return await _seen_group(tx, organization_id, group_id)


async def delete_group(tx: Tx, who: Principal, group_id: str) -> None:
    organization_id = await _hold(tx, who)
    before = await _group(tx, organization_id, group_id)
    members = [user_id for user_id, _ in (await store.members_of(tx, [group_id])).get(group_id, ())]
    await store.delete_group(tx, group_id)
    details = {"name": before.display_name, "members": len(members)}
    await audit.record(tx, who, "provisioning.delete_group", "provisioned_group", group_id, details)
    await apply_groups(tx, organization_id, members, _names(before))


async def _set_members(tx: Tx, group: ProvisionedGroup, wanted: tuple[str, ...]) -> list[str]:
    """Make these people the members of a group, and return who joined or left. Ids of others are refused."""
    if len(wanted) > model.MAX_MEMBERS:
        raise Invalid(f"a group has at most {model.MAX_MEMBERS:,} members")
    before = {user_id for user_id, _ in (await store.members_of(tx, [group.id])).get(group.id, ())}
    joined = [each for each in dict.fromkeys(wanted) if each not in before]
    known = await store.known_people(tx, group.organization_id, joined)
    if unknown := [each for each in joined if each not in known]:
        raise Invalid(f"members are ids of users of this organization: {unknown[0][:60]!r} is none")
    left = sorted(before - set(wanted))
    await store.add_members(tx, group.id, joined)
    await store.remove_members(tx, group.id, left)
    return [*joined, *left]


async def _group(tx: Tx, organization_id: str, group_id: str) -> ProvisionedGroup:
    found = await store.group(tx, organization_id, group_id)
    if found is None:
        raise NotFound(f"there is no group {group_id}")
    return found


async def _seen_group(tx: Tx, organization_id: str, group_id: str, *, has_members: bool = True) -> GroupSeen:
    _, found = await store.groups(tx, organization_id, Lookup(resource_id=group_id), 0, 1, has_members=has_members)
    if not found:
        raise NotFound(f"there is no group {group_id}")
    return found[0]
