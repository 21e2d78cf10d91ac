"""What administrators see of logins: the claims that arrived, the rules that match, and what a changed rule would do."""

from collections.abc import Sequence

import msgspec

from terracrew.api.sso import DryRun, DryRunPerson, DryRunRule, LoginSeen, MappingRule
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.identity.people import user_reads
from terracrew.server.identity.sso import claims, mapping, providers, store
from terracrew.server.identity.sso.model import StoredProvider
from terracrew.server.principals.model import Principal

MAX_EXAMINED = 500
"""How many people a dry run looks at: those with the latest logins, and as many whom an identity provider manages."""


async def logins(tx: Tx, who: Principal, reference: str, before: str, count: int) -> list[LoginSeen]:
    """Return the last logins of a provider, with what follows from their claims by the rules of this moment."""
    provider = await providers.readable(tx, who, reference)
    rules = await store.rules(tx, provider.id)
    found = rows_to(LoginSeen, await store.logins(tx, provider.id, before, count))
    groups = await store.provisioned_groups(tx, provider.id, {each.user_id for each in found if each.user_id})
    return [_with_roles(provider, rules, each, groups.get(each.user_id or "", [])) for each in found]


def _with_roles(
    provider: StoredProvider, rules: list[MappingRule], seen: LoginSeen, groups: Sequence[str]
) -> LoginSeen:
    if not seen.claims:
        return seen
    found = mapping.evaluate(rules, mapping.attributes(seen.claims, provider.groups_claim, groups))
    notes = claims.notes(seen.claims, provider.groups_claim)
    return msgspec.structs.replace(seen, matches=found.matches, roles=found.roles, notes=notes)


async def dry_run(tx: Tx, who: Principal, reference: str, wanted: DryRunRule) -> DryRun:
    """Say whose roles would change if the rules were others. Nothing is changed."""
    provider = await providers.readable(tx, who, reference)
    before = await store.rules(tx, provider.id)
    after = list(before)
    if wanted.replaces:
        after = [each for each in before if each.id != wanted.replaces]
        if len(after) == len(before):
            raise NotFound(f"{provider.name} has no rule {wanted.replaces[:100]}")
    if wanted.rule is not None:
        after.append((await providers.checked_rule(tx, who, wanted.rule))[0])
    people: list[DryRunPerson] = []
    found = await store.latest_identities(tx, provider.id, MAX_EXAMINED)
    subjects = {each.user_id: each.subject for each in found}
    provisioned = await store.provisioned_people(tx, provider.id, "", MAX_EXAMINED)
    examined = list(dict.fromkeys((*subjects, *provisioned)))
    claims_of = await store.claims_of_users(tx, provider.id, examined)
    groups = await store.provisioned_groups(tx, provider.id, examined)
    for user_id in examined:
        person = mapping.attributes(claims_of.get(user_id, {}), provider.groups_claim, groups.get(user_id, ()))
        was, will = mapping.evaluate(before, person), mapping.evaluate(after, person)
        gained, lost = mapping.changes(was.roles, will.roles)
        if gained or lost:
            user = await user_reads.of_id(tx, user_id)
            people.append(
                DryRunPerson(user_id, "" if user is None else user.name, subjects.get(user_id, ""), gained, lost)
            )
    return DryRun(tuple(people), len(examined))
