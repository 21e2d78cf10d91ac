"""What administrators see of logins: the claims that arrived, the rules that match, and what a changed rule would do."""

import msgspec

from terracrew.api.sso import DryRun, DryRunPerson, DryRunRule, LoginSeen, MappingRule
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.identity.people import user_reads
from terracrew.server.identity.sso import claims, mapping, providers, role_mapping, store
from terracrew.server.identity.sso.model import StoredProvider
from terracrew.server.principals.model import Principal

MAX_EXAMINED = 500
"""How many people a dry run looks at: those with the latest logins, and as many whom an identity provider manages."""


async def logins(tx: Tx, who: Principal, reference: str, before: str, count: int) -> list[LoginSeen]:
    """Return the last logins of a provider, with what follows from their claims by the rules of this moment."""
    provider = await providers.readable(tx, who, reference)
    rules = await store.rules(tx, provider.id)
    rows = await store.logins(tx, provider.id, before, count)
    return [await _with_roles(tx, provider, rules, row_to(LoginSeen, row)) for row in rows]


async def _with_roles(tx: Tx, provider: StoredProvider, rules: list[MappingRule], seen: LoginSeen) -> LoginSeen:
    if not seen.claims:
        return seen
    found = mapping.evaluate(rules, await role_mapping.attributes(tx, provider, seen.user_id or "", seen.claims))
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
    linked = {each.user_id for each in found}
    provisioned = await store.provisioned_people(tx, provider.id, "", MAX_EXAMINED)
    candidates = [(each.user_id, each.subject, each.claims) for each in found]
    candidates += [(user_id, "", {}) for user_id in provisioned if user_id not in linked]
    for user_id, subject, given in candidates:
        person = await role_mapping.attributes(tx, provider, user_id, given)
        was, will = mapping.evaluate(before, person), mapping.evaluate(after, person)
        gained, lost = mapping.changes(was.roles, will.roles)
        if gained or lost:
            user = await user_reads.of_id(tx, user_id)
            people.append(DryRunPerson(user_id, "" if user is None else user.name, subject, gained, lost))
    return DryRun(tuple(people), len(candidates))
