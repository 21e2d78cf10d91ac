"""What administrators see of logins: the claims that arrived, the rules that match, and what a changed rule would do."""

from typing import Any

import msgspec

from terracrew.api.sso import DryRun, DryRunPerson, DryRunRule, LoginSeen, MappingRule
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.identity.people import user_reads
from terracrew.server.identity.sso import arrivals, claims, mapping, providers, role_mapping, store
from terracrew.server.identity.sso.mapping import PersonAttributes
from terracrew.server.identity.sso.model import StoredProvider
from terracrew.server.principals.model import Principal

MAX_EXAMINED = 500
"""How many people a dry run looks at: those with the latest logins, and as many whom an identity provider manages."""
MAX_COMPARISONS = 300_000
"""How many values a page or a dry run compares with patterns, because nobody else is served meanwhile. It looks at fewer people where
they have very many groups."""
NOT_LET_IN = "with these claims, the person is not let in any more, and they give no role"
NOT_EVALUATED = (
    "the rules are not evaluated here, because the people on this page have too many groups: show fewer logins"
)


async def logins(tx: Tx, who: Principal, reference: str, before: str, count: int) -> list[LoginSeen]:
    """Return the last logins of a provider, with what follows from their claims by the rules of this moment."""
    provider = await providers.readable(tx, who, reference)
    rules = await store.rules(tx, provider.id)
    found: list[LoginSeen] = []
    compared = 0
    for row in await store.logins(tx, provider.id, before, count):
        seen = row_to(LoginSeen, row)
        counting = seen.claims if arrivals.is_admitted(provider, seen.claims) else {}
        person = await role_mapping.attributes(tx, provider, seen.user_id or "", counting)
        compared += mapping.comparisons(rules, person)
        found.append(_with_roles(provider, rules, seen, person if compared <= MAX_COMPARISONS else None))
    return found


def _with_roles(
    provider: StoredProvider, rules: list[MappingRule], seen: LoginSeen, person: PersonAttributes | None
) -> LoginSeen:
    if not seen.claims:
        return seen
    notes = claims.notes(seen.claims, provider.groups_claim)
    if seen.outcome == "in" and not arrivals.is_admitted(provider, seen.claims):
        notes = (*notes, NOT_LET_IN)
    if person is None:
        return msgspec.structs.replace(seen, notes=(*notes, NOT_EVALUATED))
    found = mapping.evaluate(rules, person)
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
    every = list({each.id: each for each in (*before, *after)}.values())
    people: list[DryRunPerson] = []
    examined = compared = 0
    for user_id, subject, given in await _candidates(tx, provider):
        person = await role_mapping.attributes(tx, provider, user_id, given)
        compared += mapping.comparisons(every, person)
        if compared > MAX_COMPARISONS:
            break
        examined += 1
        matching = {each.rule_id for each in mapping.evaluate(every, person).matches}
        gained, lost = mapping.changes(
            *(mapping.strongest(each for each in rules if each.id in matching) for rules in (before, after))
        )
        if gained or lost:
            user = await user_reads.of_id(tx, user_id)
            people.append(DryRunPerson(user_id, "" if user is None else user.name, subject, gained, lost))
    return DryRun(tuple(people), examined)


async def _candidates(tx: Tx, provider: StoredProvider) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the people whom a dry run looks at, each by the user, the `sub` and the stored claims."""
    found = await store.latest_identities(tx, provider.id, MAX_EXAMINED)
    linked = {each.user_id for each in found}
    provisioned = await store.provisioned_people(tx, provider.id, "", MAX_EXAMINED)
    candidates = [(each.user_id, each.subject, each.claims) for each in found]
    return candidates + [(user_id, "", {}) for user_id in provisioned if user_id not in linked]
