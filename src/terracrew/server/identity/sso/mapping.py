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
"""The most values of a claim, and the most groups of an identity provider, that rules see of a person."""
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
    """Return the rules that match, and the roles that follow."""
    matching: list[tuple[MappingRule, tuple[str, ...]]] = []
    known: dict[str, tuple[str, ...]] = {GROUPS: person.groups}
    for rule in rules:
        if rule.claim not in known:
            known[rule.claim] = values(person.claims, rule.claim)
        if found := matching_values(rule, known[rule.claim]):
            matching.append((rule, found))
    matches = tuple(RuleMatch(rule.id, found[:MAX_SHOWN_MATCHES]) for rule, found in matching)
    return MappedRoles(matches, strongest(rule for rule, _ in matching))


def strongest(matching: Iterable[MappingRule]) -> tuple[GivenRole, ...]:
    """Return the roles that follow from rules that match: the strongest at each place that they name."""
    found: dict[tuple[str, bool], GivenRole] = {}
    for rule in matching:
        place = rule.path, rule.is_module
        before = found.get(place)
        if before is None or _RANK[rule.role] > _RANK[before.role]:
            found[place] = GivenRole(rule.role, rule.path, rule.is_module, rule.id)
    return tuple(found[place] for place in sorted(found))


def matching_values(rule: MappingRule, given: Sequence[str]) -> tuple[str, ...]:
    """Return the values that a rule is about. A person can have a thousand of them, and a provider two hundred rules."""
    if not rule.is_pattern:
        return (rule.value,) if rule.value in given else ()
    is_like = claims_rules.compiled(rule.value).fullmatch
    return tuple(each for each in given if is_like(each))


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


def comparisons(rules: Iterable[MappingRule], person: PersonAttributes) -> int:
    """Return about how many patterns are compared with values. These are what costs time."""
    patterns = sum(each.is_pattern for each in rules)
    return patterns * max(len(person.groups), 1)
