"""Makes the roles of a person equal to what follows from the rules of their provider. What people granted is not touched."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from terracrew.api.access import RoleBinding
from terracrew.api.sso import GivenRole
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import mapping, store
from terracrew.server.identity.sso.mapping import MappedRoles
from terracrew.server.identity.sso.model import LinkedPerson, StoredProvider
from terracrew.server.principals.model import SYSTEM


async def apply(tx: Tx, provider: StoredProvider, identity: LinkedPerson) -> MappedRoles:
    """Evaluate the rules for the stored claims of a person, and grant and revoke roles accordingly.

    The caller has locked the row of the provider. Whoever changes its rules locks it, too, so the roles are always those that
    follow from the rules that were committed last.
    """
    rules = await store.rules(tx, provider.id)
    found = mapping.evaluate(rules, await attributes(tx, provider, identity.user_id, identity.claims))
    await _make_equal(tx, provider, identity.user_id, found.roles)
    await store.note_evaluated(tx, identity.id, provider.rules_version)
    return found


async def apply_to_user(tx: Tx, provider: StoredProvider, user_id: str) -> None:
    """Evaluate the rules for a user whose groups have changed, or who may be in groups without ever having logged in."""
    identity = await store.linked_at(tx, provider.id, user_id)
    claims = {} if identity is None else identity.claims
    rules = await store.rules(tx, provider.id)
    found = mapping.evaluate(rules, await attributes(tx, provider, user_id, claims))
    await _make_equal(tx, provider, user_id, found.roles)


async def has_rule_about(tx: Tx, provider: StoredProvider, groups: Collection[str]) -> bool:
    """Return whether a rule of a provider matches one of these names of groups."""
    rules = [each for each in await store.rules(tx, provider.id) if each.claim == mapping.GROUPS]
    return any(mapping.matching_values(each, tuple(groups)) for each in rules)


async def forget(tx: Tx, provider: StoredProvider, identity: LinkedPerson) -> None:
    """Forget the claims of a person, and take away the roles that followed from them. The caller has locked the row of the provider."""
    await store.forget_claims(tx, identity.id)
    await apply(tx, provider, msgspec.structs.replace(identity, claims={}))


async def take_away(tx: Tx, provider: StoredProvider, user_id: str) -> None:
    """Revoke the roles that a person has because of the claims of a provider. Those by groups that an identity provider manages stay."""
    rules = await store.rules(tx, provider.id)
    found = mapping.evaluate(rules, await attributes(tx, provider, user_id, {}))
    await _make_equal(tx, provider, user_id, found.roles)


async def take_all_away(tx: Tx, provider: StoredProvider, user_id: str) -> None:
    """Revoke all roles that a person has by the rules of a provider, because these rules end."""
    await _make_equal(tx, provider, user_id, ())


async def attributes(
    tx: Tx, provider: StoredProvider, user_id: str, claims: Mapping[str, Any]
) -> mapping.PersonAttributes:
    """Return what rules see of a user: claims, and the groups of the claims and of the identity provider that manages the user."""
    groups = await store.provisioned_groups(tx, provider.id, user_id, mapping.MAX_VALUES)
    return mapping.attributes(claims, provider.groups_claim, groups)


async def _make_equal(tx: Tx, provider: StoredProvider, user_id: str, roles: tuple[GivenRole, ...]) -> None:
    before = {_place(each): each for each in await role_store.roles_of_source(tx, user_id, provider.id)}
    wanted = {(each.path, each.is_module): each for each in roles}
    changes: list[audit.Change] = []
    name = (await people.user(tx, user_id)).name
    for place, role in wanted.items():
        held = before.get(place)
        if held is not None and (held.role, held.source_rule) == (role.role, role.rule_id):
            continue
        kind = "module" if role.is_module else "group"
        made = await role_store.bind_role(
            tx,
            provider.organization_id,
            "user",
            user_id,
            role.role.value,
            kind,
            role.path,
            SYSTEM.id,
            source=provider.id,
            source_rule=role.rule_id,
        )
        if held is None or held.role is not role.role:
            details = {"principal": user_id, "name": name, "role": role.role.value, "kind": kind, "path": role.path}
            details |= {"provider": provider.name, "rule": role.rule_id}
            changes.append(audit.Change(SYSTEM, "role.grant", "role", made.id, details, provider.organization_id))
    for place, held in before.items():
        if place in wanted:
            continue
        await role_store.unbind_role(tx, held.id)
        details = {"principal": user_id, "name": name, "role": held.role.value, "path": held.path}
        details |= {"provider": provider.name}
        changes.append(audit.Change(SYSTEM, "role.revoke", "role", held.id, details, provider.organization_id))
    if changes:
        await audit.record_all(tx, changes)
        tx.wake("roles", user_id)


def _place(binding: RoleBinding) -> tuple[str, bool]:
    return binding.path, binding.place_kind == "module"
