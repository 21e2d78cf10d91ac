"""Which trust policies are accepted, and which claims match them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from terracrew.api.access import TrustPolicy
from terracrew.errors import Invalid
from terracrew.server.identity.federation import rules
from terracrew.server.identity.federation.model import TokenRefused

NOW = 1_800_000_000.0
OWN = "https://crew.example.com"


def policy(audience: str = "crew", is_reusable: bool = False, **claims: str) -> TrustPolicy:
    made_at = datetime.fromtimestamp(NOW, UTC)
    return TrustPolicy("trp_1", "org_1", "sac_1", "https://i", audience, claims, is_reusable, "usr_1", made_at)


def refusal(policies: tuple[TrustPolicy, ...], claims: dict[str, Any], ends_at: float = NOW + 300) -> str:
    with pytest.raises(TokenRefused) as caught:
        rules.matching(policies, claims, ends_at, NOW)
    return caught.value.reason


@pytest.mark.feature("A3.policies")
@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "gitlab.com",
        "ftp://gitlab.com",
        "http://gitlab.com",
        "https://",
        "https://user:password@gitlab.com",
        "https://gitlab.com/?a=b",
        "https://gitlab.com#a",
        "https://gitlab.com:99999",
        "https://gitlab.com\\@evil.example",
        "https://gitläb.com",
        "https://gitlab.com/ a",
        "https://" + "a" * 600,
        OWN,
        OWN + "/",
    ],
)
def test_an_issuer_is_an_https_address_of_another_server(wrong: str) -> None:
    with pytest.raises(Invalid):
        rules.checked_issuer(wrong, frozenset({OWN}), frozenset({"http://10.0.0.1:80"}))


@pytest.mark.feature("A3.policies")
def test_an_issuer_without_tls_needs_the_servers_permission() -> None:
    allowed = frozenset({rules.origin("http://10.0.0.1")})
    assert rules.checked_issuer("http://10.0.0.1/cluster", frozenset({OWN}), allowed) == "http://10.0.0.1/cluster"
    with pytest.raises(Invalid, match="federation_private_issuers"):
        rules.checked_issuer("http://10.0.0.1:8080", frozenset({OWN}), allowed)


@pytest.mark.feature("A3.policies")
@pytest.mark.parametrize(
    "wrong",
    [
        {"sub": "*"},
        {"sub": "**"},
        {"sub": "?*"},
        {"sub": ""},
        {"": "a"},
        {"aud": "*"},
        {"aud": "a", "/aud": "a"},
        {"iss": "a"},
        {"/iss": "a"},
        {"exp": "1"},
        {"a\nb": "c"},
        {"sub": "a\x1b[2J"},
        {"sub": "a" * 501},
        {f"claim-{number}": "a" for number in range(21)},
    ],
)
def test_a_policy_names_what_must_match_and_never_everything(wrong: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        rules.checked_bounds("https://i", "", wrong, OWN)


@pytest.mark.feature("A3.policies")
def test_an_audience_alone_bounds_the_tokens_of_an_issuer_of_ones_own() -> None:
    """The claim `aud` was refused: "the claim aud is always checked: leave it out"; and so was a policy without another claim."""
    issuer = "https://my-oidc-provider.example"
    assert rules.checked_bounds(issuer, "", {"aud": "crew"}, OWN) == ("crew", {})
    assert rules.checked_bounds(issuer, "crew", {}, OWN) == ("crew", {})
    assert rules.checked_bounds(issuer, "crew", {"aud": "crew"}, OWN) == ("crew", {})
    assert rules.checked_bounds(issuer, "", {"aud": "crew-*", "sub": "a"}, OWN) == ("crew-*", {"sub": "a"})
    assert rules.checked_bounds(issuer, "", {"sub": "a"}, OWN) == (OWN, {"sub": "a"})
    for audience, claims in (("", {}), ("crew", {"aud": "crews"}), ("*", {}), ("", {"aud": "?*"})):
        with pytest.raises(Invalid):
            rules.checked_bounds(issuer, audience, claims, OWN)


@pytest.mark.feature("A3.policies")
@pytest.mark.parametrize(
    "issuer",
    [
        "https://token.actions.githubusercontent.com",
        "https://Token.Actions.GitHubUserContent.com/",
        "https://token.actions.githubusercontent.com:443",
        "https://token.actions.githubusercontent.com./acme",
        "https://gitlab.com",
        "https://accounts.google.com",
        "https://login.microsoftonline.com/common/v2.0",
    ],
)
def test_an_issuer_that_serves_everybody_needs_a_claim_beside_the_audience(issuer: str) -> None:
    """Everybody with an account there can ask for a token with any audience, and would be this service account."""
    for audience, claims in (("crew", {}), ("", {"aud": "crew"}), ("crew-*", {})):
        with pytest.raises(Invalid, match="everybody can get a token of"):
            rules.checked_bounds(issuer, audience, claims, OWN)
    wanted = {"sub": "repo:acme/net"}
    assert rules.checked_bounds(issuer, "crew", wanted, OWN) == ("crew", wanted)


@pytest.mark.feature("A3.policies")
@pytest.mark.parametrize("wrong", ["", "*", "?*", "a" * 501, "a\n"])
def test_an_audience_is_not_everything(wrong: str) -> None:
    with pytest.raises(Invalid):
        rules.checked_audience(wrong)


@pytest.mark.feature("A3.exchange")
@pytest.mark.parametrize(
    ("wanted", "value", "is_match"),
    [
        ("repo:acme/net:ref:refs/heads/main", "repo:acme/net:ref:refs/heads/main", True),
        ("repo:acme/net:ref:refs/heads/main", "repo:acme/net:ref:refs/heads/main2", False),
        ("repo:acme/net:*", "repo:acme/net:pull_request", True),
        ("repo:acme/net:*", "repo:acme/network:x", False),
        ("repo:acme/net:*", "x repo:acme/net:", False),
        ("repo:acme/net:*", "repo:acme/net:a\nb", True),
        ("release-?", "release-1", True),
        ("release-?", "release-12", False),
        ("[ab]*", "[ab]c", True),
        ("[ab]*", "ac", False),
        ("Acme", "acme", False),
        ("true", True, True),
        ("1", True, False),
        ("1", 1, True),
        ("1", 1.0, False),
        ("admins", ["users", "admins"], True),
        ("admins", ["users", ["admins"]], False),
        ("admins", {"admins": 1}, False),
        ("None", None, False),
    ],
)
def test_a_claim_is_compared_exactly_or_by_a_pattern(wanted: str, value: Any, is_match: bool) -> None:
    claims = {"aud": "crew", "it": value}
    if is_match:
        assert rules.matching((policy(it=wanted),), claims, NOW + 300, NOW)
    else:
        assert refusal((policy(it=wanted),), claims) == "claims do not match: it"


@pytest.mark.feature("A3.exchange")
@pytest.mark.parametrize(
    ("wanted", "audience", "is_match"),
    [
        ("crew-*", "crew-eu", True),
        ("crew-*", ["others", "crew-eu"], True),
        ("crew-*", "my-crew-eu", False),
        ("crew-?", "crew-12", False),
        ("crew", "crew-eu", False),
        ("1", 1, False),
        ("true", True, False),
        ("crew", [["crew"]], False),
        ("crew", None, False),
    ],
)
def test_an_audience_is_compared_exactly_or_by_a_pattern(wanted: str, audience: Any, is_match: bool) -> None:
    if is_match:
        assert rules.matching((policy(wanted),), {"aud": audience}, NOW + 300, NOW)
    else:
        assert "audience" in refusal((policy(wanted),), {"aud": audience})


@pytest.mark.feature("A3.exchange")
def test_a_pattern_with_many_stars_takes_no_time() -> None:
    assert refusal((policy(it="*a" * 200 + "b"),), {"aud": "crew", "it": "a" * 10_000})


@pytest.mark.feature("A3.exchange")
def test_nested_claims_are_reached_by_a_pointer() -> None:
    claims = {"aud": ["crew"], "kubernetes.io": {"namespace": "infra", "a/b": {"c~d": "e"}}, "/x": "no"}
    wanted = {"/kubernetes.io/namespace": "infra", "/kubernetes.io/a~1b/c~0d": "e"}
    assert rules.matching((policy(**wanted),), claims, NOW + 300, NOW)
    assert "do not match" in refusal((policy(**{"/kubernetes.io/namespace/x": "y"}),), claims)


@pytest.mark.feature("A3.exchange")
def test_one_policy_is_enough_and_the_nearest_one_gives_the_reason() -> None:
    policies = (policy("other", sub="a"), policy(sub="a", ref="main"), policy(sub="b"))
    assert rules.matching(policies, {"aud": "crew", "sub": "b"}, NOW + 300, NOW) is policies[2]
    assert refusal(policies, {"aud": "crew", "sub": "a", "ref": "dev"}) == "claims do not match: ref"
    assert refusal(policies, {"aud": "crews", "sub": "a"}) == "the token's audience is that of no trust policy"
    assert refusal(policies, {"aud": [["crew"]], "sub": "a"}) == "the token's audience is that of no trust policy"
    assert refusal(policies, {"sub": "a"}) == "the token's audience is that of no trust policy"


@pytest.mark.feature("A3.exchange")
def test_only_a_reusable_token_may_be_valid_for_more_than_a_day() -> None:
    claims, ends_at = {"aud": "crew", "sub": "a"}, NOW + 365 * 86400
    assert refusal((policy(sub="a"),), claims, ends_at) == "the token is valid for more than a day"
    assert rules.matching((policy(is_reusable=True, sub="a"),), claims, ends_at, NOW)


@pytest.mark.feature("A3.exchange")
@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({}, "the token has no time of expiry"),
        ({"exp": NOW - 61}, "the token expired 61 s ago by this server's clock"),
        ({"exp": NOW - 7200}, "the token expired 120 min ago by this server's clock"),
        ({"exp": NOW + 60, "nbf": NOW + 300}, "the token's nbf is 300 s ahead of this server's clock"),
        ({"exp": NOW + 60, "iat": NOW + 61}, "the token's iat is 61 s ahead of this server's clock"),
        ({"exp": "never"}, "the token's exp is not a time"),
        ({"exp": True}, "the token's exp is not a time"),
        ({"exp": float("nan")}, "the token's exp is not a time"),
        ({"exp": float("inf")}, "the token's exp is not a time"),
        ({"exp": 10**400}, "the token's exp is not a time"),
    ],
)
def test_a_token_is_valid_for_a_time_that_clocks_a_minute_apart_agree_on(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenRefused) as caught:
        rules.check_times(claims, NOW)
    assert caught.value.reason == reason
    assert rules.check_times({"exp": NOW - 59, "nbf": NOW + 59, "iat": NOW + 59}, NOW) == NOW - 59
