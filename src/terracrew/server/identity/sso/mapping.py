"""Says which roles follow from the claims of a person: one pure function for logins, refreshes, the page and dry runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from terracrew.api.access import Role
from terracrew.api.sso import GivenRole, MappingRule, RuleMatch
from terracrew.server.identity.federation import rules as claims_rules

GROUPS = "groups"
"""The claim of a rule that means the groups of a person, which do not have to come from a token."""
EMAIL, EMAIL_VERIFIED = frozenset({"email", "/email"}), "email_verified"
MAX_VALUES = 1000
MAX_SHOWN_MATCHES = 20
_RANK = {role: rank for rank, role in enumerate(Role)}


class PersonAttributes(msgspec.Struct, frozen=True):
    """What rules can see of a person."""

    claims: Mapping[str, Any]
    groups: tuple[str, ...]


class MappedRoles(msgspec.Struct, frozen=True):
    matches: tuple[RuleMatch, ...]
    roles: tuple[GivenRole, ...]


def attributes(claims: Mapping[str, Any], groups_claim: str, further_groups: Iterable[str] = ()) -> PersonAttributes:
    """Return what rules see. `further_groups` are those that are known from elsewhere."""
    of_token = texts(claims_rules.claim(claims, groups_claim)) if groups_claim else ()
    return PersonAttributes(claims, tuple(dict.fromkeys((*of_token, *further_groups))))


def evaluate(rules: Sequence[MappingRule], person: PersonAttributes) -> MappedRoles:
    """Return the rules that match, and the strongest role at each place that they name."""
    matches: list[RuleMatch] = []
    strongest: dict[tuple[str, bool], GivenRole] = {}
    for rule in rules:
        found = matching_values(rule, person)
        if not found:
            continue
        matches.append(RuleMatch(rule.id, found[:MAX_SHOWN_MATCHES]))
        place = rule.path, rule.is_module
        before = strongest.get(place)
        if before is None or _RANK[rule.role] > _RANK[before.role]:
            strongest[place] = GivenRole(rule.role, rule.path, rule.is_module, rule.id)
    return MappedRoles(tuple(matches), tuple(strongest[place] for place in sorted(strongest)))


def matching_values(rule: MappingRule, person: PersonAttributes) -> tuple[str, ...]:
    given = person.groups if rule.claim == GROUPS else values(person.claims, rule.claim)
    return tuple(each for each in given if is_match(each, rule.value, is_pattern=rule.is_pattern))


def is_match(value: str, wanted: str, *, is_pattern: bool) -> bool:
    """Compare a whole value. The time that a pattern takes grows with the length of the value, and not faster."""
    return claims_rules.is_like(value, wanted) if is_pattern else value == wanted


def values(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the values of a claim. An address that the provider has not verified is one that anybody may have typed there."""
    if name in EMAIL and claims.get(EMAIL_VERIFIED) in (False, "false"):
        return ()
    return texts(claims_rules.claim(claims, name))


def texts(value: object) -> tuple[str, ...]:
    """Return the values of a claim as texts: of a list each of its values, of anything that is not plain none."""
    given = cast("list[object]", value)[:MAX_VALUES] if isinstance(value, list) else [value]
    return tuple(text for each in given if (text := _text(each)) is not None)


def changes(
    before: Iterable[GivenRole], after: Iterable[GivenRole]
) -> tuple[tuple[GivenRole, ...], tuple[GivenRole, ...]]:
    """Return the roles that somebody gains and loses. Another role at the same place is both."""
    was = {(each.role, each.path, each.is_module): each for each in before}
    will = {(each.role, each.path, each.is_module): each for each in after}
    return (
        tuple(each for key, each in will.items() if key not in was),
        tuple(each for key, each in was.items() if key not in will),
    )


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None
