"""Which roles follow from which claims, and which claims are kept: tables of pure functions."""

from typing import Any

import msgspec
import pytest

from terracrew.api.access import Role
from terracrew.api.sso import GivenRole, MappingRule
from terracrew.server.identity.sso import claims, mapping
from terracrew.server.identity.sso.arrivals import cleaned


def rule(
    value: str, role: Role, path: str = "", claim: str = "groups", *, like: bool = False, name: str = "r"
) -> MappingRule:
    return MappingRule(name, claim, like, value, role, path)


def roles(rules: list[MappingRule], **given: Any) -> set[tuple[str, str]]:
    found = mapping.evaluate(rules, mapping.attributes(given, "groups"))
    return {(each.role.value, each.path) for each in found.roles}


@pytest.mark.feature("P1.rules")
@pytest.mark.parametrize(
    ("wanted", "given", "is_match"),
    [
        (rule("ops", Role.VIEWER), {"groups": ["dev", "ops"]}, True),
        (rule("ops", Role.VIEWER), {"groups": ["OPS", "ops "]}, False),
        (rule("ops", Role.VIEWER), {"groups": "ops"}, True),
        (rule("ops", Role.VIEWER), {"roles": ["ops"]}, False),
        (rule("team-*", Role.VIEWER), {"groups": ["team-*"]}, True),
        (rule("team-*", Role.VIEWER), {"groups": ["team-a"]}, False),
        (rule("team-*", Role.VIEWER, like=True), {"groups": ["team-a"]}, True),
        (rule("team-*", Role.VIEWER, like=True), {"groups": ["my-team-a"]}, False),
        (rule("team-?", Role.VIEWER, like=True), {"groups": ["team-ab"]}, False),
        (rule("[a]", Role.VIEWER, like=True), {"groups": ["a"]}, False),
        (rule("true", Role.VIEWER, claim="is_employee"), {"is_employee": True}, True),
        (rule("7", Role.VIEWER, claim="level"), {"level": 7}, True),
        (rule("admin", Role.VIEWER, claim="/realm_access/roles"), {"realm_access": {"roles": ["admin"]}}, True),
        (rule("ops", Role.VIEWER), {"groups": [{"name": "ops"}, None, 1.5]}, False),
        (rule("ops", Role.VIEWER), {}, False),
    ],
)
def test_a_rule_matches_whole_values(wanted: MappingRule, given: dict[str, Any], is_match: bool) -> None:
    assert bool(roles([wanted], **given)) == is_match


@pytest.mark.feature("P1.rules")
def test_all_rules_count_and_the_strongest_role_wins_at_one_place() -> None:
    rules = [
        rule("ops", Role.OPERATOR, "data"),
        rule("*", Role.VIEWER, "data", like=True),
        rule("leads", Role.OWNER, "data"),
        rule("ops", Role.VIEWER),
    ]
    assert roles(rules, groups=["ops"]) == {("operator", "data"), ("viewer", "")}
    assert roles(rules, groups=["leads", "ops"]) == {("owner", "data"), ("viewer", "")}
    assert roles(list(reversed(rules)), groups=["leads", "ops"]) == {("owner", "data"), ("viewer", "")}
    assert roles(rules) == set()


def test_groups_from_elsewhere_meet_the_same_rules() -> None:
    person = mapping.attributes({"memberOf": ["a"]}, "memberOf", ["b", "a"])
    assert person.groups == ("a", "b")
    assert [each.values for each in mapping.evaluate([rule("b", Role.VIEWER)], person).matches] == [("b",)]


@pytest.mark.timeout(20)
def test_no_pattern_takes_long() -> None:
    """Ten stars over a value of the longest length: a matcher that goes back would need years."""
    assert roles([rule("*a" * 10 + "b", Role.VIEWER, like=True)], groups=["a" * 5000] * 200) == set()


def test_what_is_gained_and_lost_are_both_sides_of_a_difference() -> None:
    def given(role: Role, path: str) -> GivenRole:
        return GivenRole(role, path, False, "r")

    before, after = [given(Role.VIEWER, ""), given(Role.OWNER, "a")], [given(Role.OPERATOR, ""), given(Role.OWNER, "a")]
    gained, lost = mapping.changes(before, after)
    assert (gained, lost) == ((given(Role.OPERATOR, ""),), (given(Role.VIEWER, ""),))


@pytest.mark.feature("P1.claims")
def test_what_looks_like_a_secret_is_not_kept() -> None:
    jwt = f"{'a' * 20}.{'b' * 20}.{'c' * 20}"
    kept = claims.kept(
        {"api_token": "x", "password": ["y"], "nested": {"client_secret": "z"}, "opaque": jwt, "sub": "1"}
    )
    assert kept == {
        "api_token": claims.MASK,
        "password": claims.MASK,
        "nested": {"client_secret": claims.MASK},
        "opaque": claims.MASK,
        "sub": "1",
    }


def test_claims_are_bounded_and_those_that_count_are_kept_first() -> None:
    noise = {f"noise{number}": "n" * 5000 for number in range(500)}
    kept = claims.kept({**noise, "deep": [[[["x"]]]], "groups": ["g"] * 5000, "nonce": "n", "exp": 1}, {"groups"})
    assert kept["groups"] == [*["g"] * mapping.MAX_VALUES, claims.CUT]
    assert len(kept) <= claims.MAX_CLAIMS
    assert sum(len(str(value)) for value in kept.values()) <= claims.MAX_BYTES
    assert not {"nonce", "exp"} & kept.keys()


@pytest.mark.feature("P1.claims")
@pytest.mark.parametrize("given", [{"_claim_names": {"groups": "src1"}}, {"hasgroups": True}, {"hasgroups": "true"}])
def test_groups_that_entra_leaves_out_are_said(given: dict[str, Any]) -> None:
    assert "Entra" in claims.notes(given, "groups")[0]
    assert claims.notes({"groups": ["a"]}, "groups") == ()
    assert "no claim groups" in claims.notes({"sub": "1"}, "groups")[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Ada.Lovelace@Example.COM", ("ada.lovelace", "example.com")),
        ("André Müller", ("andre-muller", "")),
        ("日本", ("person-", "")),
        ("usr_0190", ("person-usr-0190", "")),
        ("a@localhost", ("a", "")),
    ],
)
def test_names_are_made_of_what_names_may_have(given: str, expected: tuple[str, str]) -> None:
    assert (cleaned(given)[0].rstrip("-"), cleaned(given)[1]) == (expected[0].rstrip("-"), expected[1])


@pytest.mark.feature("P1.claims")
def test_a_claim_that_is_too_large_takes_no_other_claim_with_it() -> None:
    huge = {"groups": ["g" * 400] * 1000, "department": "data", "sub": "1"}
    kept = claims.kept(huge, {"groups", "department"})
    assert (kept["department"], kept["sub"]) == ("data", "1")


@pytest.mark.feature("P1.claims")
@pytest.mark.parametrize("claim", ["groups", "/realm_access/roles"])
def test_as_many_groups_as_have_room_are_read_and_the_page_says_so(claim: str) -> None:
    """A person in a thousand groups with long names had none of them, and the page said that the provider sent no such claim."""
    groups = [f"CN=team-{number:04d},OU=Groups,OU=Engineering,DC=emea,DC=example,DC=com" for number in range(1000)]
    sent = {
        "sub": "1",
        "groups": groups,
        "realm_access": {"roles": groups, "more": "n" * 400},
        "noise": ["n" * 400] * 999,
    }
    kept = claims.kept(sent, {claim, "sub"})
    read = mapping.attributes(kept, claim).groups
    assert 500 < len(read) < 1000
    assert read[:-1] == tuple(groups[: len(read) - 1])
    assert claims.notes(kept, claim) == (
        f"only the first {len(read) - 1} groups are read: let the provider send fewer",
    )
    assert len(msgspec.json.encode(kept)) <= claims.MAX_BYTES + 2
    shown = claims.notes(claims.kept({"groups": groups * 2}, {"groups"}), "groups")
    assert "only the first" in shown[0]
