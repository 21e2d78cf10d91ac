"""Makes the roles of people equal to what follows from the rules of their provider. What people granted is not touched.

An identity provider may change thousands of people by one request, so each statement is about all people of a change.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from terracrew import ids
from terracrew.api.access import RoleBinding
from terracrew.api.sso import GivenRole
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import mapping, store
from terracrew.server.identity.sso.model import LinkedPerson, StoredProvider
from terracrew.server.principals.model import SYSTEM


async def apply(tx: Tx, provider: StoredProvider, user_ids: Iterable[str]) -> None:
    """Evaluate the rules for the stored claims and the groups of users, and grant and revoke roles accordingly.

    The caller has locked the row of the provider. Whoever changes its rules, or the claims of its people, locks it, too, so the roles
    are always those that follow from what was committed last.
    """
    users = sorted(set(user_ids))
    rules = await store.rules(tx, provider.id)
    claims = await store.claims_of_users(tx, provider.id, users)
    groups = await store.provisioned_groups(tx, provider.id, users, mapping.MAX_VALUES)
    people_ = {
        each: mapping.attributes(claims.get(each, {}), provider.groups_claim, groups.get(each, ())) for each in users
    }
    await _make_equal(tx, provider, {each: mapping.evaluate(rules, who).roles for each, who in people_.items()})
    await store.note_evaluated(tx, provider.id, users, provider.rules_version)


async def has_rule_about(tx: Tx, provider: StoredProvider, groups: Collection[str]) -> bool:
    """Return whether a rule of a provider matches one of these names of groups."""
    rules = [each for each in await store.rules(tx, provider.id) if each.claim == mapping.GROUPS]
    return any(mapping.matching_values(each, tuple(groups)) for each in rules)


async def forget(tx: Tx, provider: StoredProvider, identity: LinkedPerson) -> None:
    """Forget the claims of a person, and take away the roles that followed from them. The caller has locked the row of the provider."""
    await store.forget_claims(tx, identity.id)
    await apply(tx, provider, [identity.user_id])


async def take_all_away(tx: Tx, provider: StoredProvider) -> None:
    """Revoke all roles by the rules of a provider, because these rules end."""
    held = await role_store.all_of_source(tx, provider.id)
    await _make_equal(tx, provider, {each.principal_id: () for each in held})


async def attributes(
    tx: Tx, provider: StoredProvider, user_id: str, claims: Mapping[str, Any]
) -> mapping.PersonAttributes:
    """Return what rules see of a user: claims, and the groups of the claims and of the identity provider that manages the user."""
    groups = await store.provisioned_groups(tx, provider.id, [user_id], mapping.MAX_VALUES)
    return mapping.attributes(claims, provider.groups_claim, groups.get(user_id, ()))


async def _make_equal(tx: Tx, provider: StoredProvider, wanted: Mapping[str, Sequence[GivenRole]]) -> None:
    names = await people.names(tx, wanted)
    before: dict[str, dict[tuple[str, bool], RoleBinding]] = {}
    for held in await role_store.roles_of_source(tx, names, provider.id):
        before.setdefault(held.principal_id, {})[_place(held)] = held
    bound: list[RoleBinding] = []
    ended: list[RoleBinding] = []
    changes: list[audit.Change] = []
    for user_id, name in names.items():
        has = before.get(user_id, {})
        for role in wanted[user_id]:
            held = has.pop((role.path, role.is_module), None)
            if held is not None and (held.role, held.source_rule) == (role.role, role.rule_id):
                continue
            made = RoleBinding(
                id=ids.new("rol") if held is None else held.id,
                organization_id=provider.organization_id,
                principal_kind="user",
                principal_id=user_id,
                role=role.role,
                place_kind="module" if role.is_module else "group",
                path=role.path,
                created_by=SYSTEM.id,
                created_at=tx.moment,
                source=provider.id,
                source_rule=role.rule_id,
            )
            bound.append(made)
            if held is None or held.role is not role.role:
                changes.append(_change("role.grant", made, name, provider, kind=made.place_kind, rule=role.rule_id))
        ended += has.values()
        changes += [_change("role.revoke", each, name, provider) for each in has.values()]
    await role_store.bind_roles(tx, bound)
    await role_store.unbind_roles(tx, ended)
    if changes:
        await audit.record_all(tx, changes)
    for user_id in sorted({each.principal_id for each in (*bound, *ended)}):
        tx.wake("roles", user_id)


def _change(action: str, of: RoleBinding, name: str, provider: StoredProvider, **more: object) -> audit.Change:
    details = {"principal": of.principal_id, "name": name, "role": of.role.value, "path": of.path}
    details |= {"provider": provider.name, **more}
    return audit.Change(SYSTEM, action, "role", of.id, details, provider.organization_id)


def _place(binding: RoleBinding) -> tuple[str, bool]:
    return binding.path, binding.place_kind == "module"
