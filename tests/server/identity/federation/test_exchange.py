"""Tokens of other issuers are exchanged for access tokens, once; every failure has the same answer, and its reason is audited."""

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from terracrew.api.access import AccountChange
from terracrew.errors import Unauthenticated
from terracrew.server.db.open import open_database
from terracrew.server.identity.access import service as access
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.identity.context import open_identity
from terracrew.server.identity.federation import service, store
from terracrew.server.identity.federation.model import TokenRefused
from terracrew.server.identity.keys.signing import GENERIC
from terracrew.server.identity.oidc import cloud
from terracrew.server.identity.oidc.cloud import Subject
from terracrew.server.identity.oidc.federated import FAILURE_SECONDS
from terracrew.server.secrets.keyring import Keyring
from tests.builders.job_rows import change_organizations
from tests.machine.oidc_issuer import DISCOVERY, KEYS
from tests.machine.sqlite_template import copy_template
from tests.server.identity.federation.conftest import Federation
from tests.server.identity.identity_server import URL

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GITHUB = {
    "sub": "repo:acme/network:ref:refs/heads/main",
    "repository": "acme/network",
    "repository_owner": "acme",
    "repository_owner_id": "1234567",
    "ref": "refs/heads/main",
    "ref_protected": "true",
    "event_name": "push",
    "job_workflow_ref": "acme/network/.github/workflows/plan.yml@refs/heads/main",
    "runner_environment": "github-hosted",
}
GITLAB = {
    "sub": "project_path:acme/network:ref_type:branch:ref:main",
    "namespace_id": "72",
    "project_path": "acme/network",
    "user_login": "ada",
    "user_access_level": "owner",
    "ref": "main",
    "ref_type": "branch",
    "ref_protected": "true",
    "environment": "production",
    "pipeline_source": "push",
}
KUBERNETES = {
    "sub": "system:serviceaccount:terracrew:runner",
    "kubernetes.io": {"namespace": "terracrew", "pod": {"name": "runner-0"}, "serviceaccount": {"name": "runner"}},
}


@pytest.mark.feature("A3.exchange")
async def test_a_token_of_a_trusted_issuer_becomes_a_token_of_the_account(federation: Federation) -> None:
    policy = await federation.trust()
    answer = await federation.exchange(federation.issuer.token())
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    assert body["issued_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 900)
    who = await principal_from_bearer(federation.server.identity, body["access_token"])
    assert (who.kind, who.id, who.credential_id) == ("service_account", federation.account_id, policy.id)
    (listed,) = await federation.server.db.read(lambda tx: store.policies(tx, federation.account_id))
    assert listed.last_used_at is not None


@pytest.mark.feature("A3.exchange")
async def test_a_jwt_bearer_grant_names_the_account_by_its_path(federation: Federation) -> None:
    await federation.trust()
    form = {"grant_type": JWT_BEARER, "client_id": "default:ci", "assertion": federation.issuer.token()}
    async with federation.server.client() as client:
        answer = await client.post("/connect/token", data=form)
    assert answer.status_code == 200, answer.text
    assert "issued_token_type" not in answer.json()


@pytest.mark.feature("A3.exchange")
async def test_an_issuer_of_ones_own_is_trusted_by_the_audience_alone(federation: Federation) -> None:
    await federation.trust(claims={"aud": "crew-*"})
    assert await federation.status(federation.issuer.token("crew-eu", sub="anybody")) == 200
    for audience in ("crew", "x-crew-eu", URL):
        assert await federation.status(federation.issuer.token(audience, sub="anybody")) == 401
    assert set(await federation.reasons()) == {"the token's audience is that of no trust policy"}


@pytest.mark.feature("A1.prefix", "A3.exchange")
async def test_the_id_of_an_account_is_enough_without_its_organization(federation: Federation) -> None:
    await federation.trust()
    await federation.server.organization("elsewhere")
    assert await federation.status(federation.issuer.token(jti="1"), federation.account_id) == 200
    assert await federation.status(federation.issuer.token(jti="2"), "sac_" + "0" * 32) == 401


@pytest.mark.feature("A3.exchange", "D2.variables")
async def test_a_path_is_enough_where_there_is_one_organization(federation: Federation) -> None:
    await federation.trust()
    assert await federation.status(federation.issuer.token(), "ci") == 200


@pytest.mark.feature("A3.exchange")
async def test_an_account_without_an_organization_is_not_searched_in_one_of_that_name(federation: Federation) -> None:
    """A path exists in many organizations. Whoever made one of the right name would get the runners of another one."""
    mine = federation.server.organization_id
    await federation.trust()
    await change_organizations(federation.server.db, mine, name="ci")
    await federation.server.organization("elsewhere")
    assert await federation.status(federation.issuer.token(jti="1"), "ci:ci") == 200
    assert await federation.status(federation.issuer.token(jti="2"), "ci") == 401


@pytest.mark.feature("A3.exchange")
@pytest.mark.parametrize(
    ("claims", "wanted", "others"),
    [
        (
            GITHUB,
            {"sub": "repo:acme/network:*", "ref_protected": "true"},
            {"sub": "repo:evil/network:ref:refs/heads/main"},
        ),
        (GITHUB, {"job_workflow_ref": "acme/network/.github/workflows/*@refs/heads/main"}, {"job_workflow_ref": "x"}),
        (GITLAB, {"project_path": "acme/*", "ref_protected": "true", "ref": "main"}, {"ref_protected": "false"}),
        (GITLAB, {"sub": "project_path:acme/network:ref_type:branch:ref:main"}, {"sub": GITLAB["sub"] + "2"}),
        (
            KUBERNETES,
            {"sub": "system:serviceaccount:terracrew:runner", "/kubernetes.io/namespace": "terracrew"},
            {"kubernetes.io": {"namespace": "default"}},
        ),
    ],
)
async def test_tokens_of_ci_systems_and_clusters_are_told_apart_by_their_claims(
    federation: Federation, claims: dict[str, Any], wanted: dict[str, str], others: dict[str, Any]
) -> None:
    await federation.trust(claims=wanted)
    assert await federation.status(federation.issuer.token(URL, **claims)) == 200
    assert await federation.status(federation.issuer.token(URL, **(claims | others))) == 401
    assert (await federation.reasons())[0].startswith("claims do not match: ")


@pytest.mark.feature("A3.exchange")
async def test_jobs_of_a_second_terracrew_are_trusted_and_its_access_tokens_are_not(
    federation: Federation, tmp_path: Path
) -> None:
    """What the second server publishes and signs is its own; the test issuer only serves it."""
    url = federation.issuer.url
    database = await open_database(f"sqlite:///{copy_template(tmp_path / 'second.db')}")
    second = await open_identity(database, Keyring([b"o" * 32]), url)
    signing = second.tokens.signing
    federation.issuer.document = cloud.configuration(url)
    federation.issuer.answers["/.well-known/jwks.json"] = 200, {}, json.dumps(signing.jwks()).encode()
    job = Subject("org_1", "acme", "mod_1", "network", "job_1", 1, "apply")
    await federation.trust(claims={"sub": job.name, "phase": "apply"})
    assert await federation.status((await cloud.mint(signing, url, job, URL)).token) == 200
    for other in (
        await cloud.mint(signing, url, job, "sts.amazonaws.com"),
        await cloud.mint(signing, url, replace(job, phase="plan"), URL),
    ):
        assert await federation.status(other.token) == 401
    access_token = await second.tokens.sign("service_account", job.name, "org_1", "sec_1")
    assert await federation.status(access_token) == 401
    assert KEYS not in federation.issuer.asked
    await database.close()


@pytest.mark.feature("A3.replay")
async def test_a_token_is_exchanged_once_also_by_many_at_the_same_time(federation: Federation) -> None:
    await federation.trust()
    token = federation.issuer.token()
    assert sorted(await asyncio.gather(*(federation.status(token) for _ in range(8)))) == [200, *[401] * 7]
    assert await federation.status(federation.issuer.token(jti="another")) == 200
    assert set(await federation.reasons()) == {"the token was exchanged before, or its trust policy was removed"}


@pytest.mark.feature("A3.replay")
async def test_a_policy_can_let_tokens_be_used_until_they_expire(federation: Federation) -> None:
    await federation.trust(is_reusable=True)
    token = federation.issuer.token()
    assert [await federation.status(token) for _ in range(2)] == [200, 200]


@pytest.mark.feature("A3.replay")
async def test_an_organization_has_room_for_a_limited_number_of_tokens(federation: Federation) -> None:
    limited = service.Replays(federation.server.db, max_remembered=2)
    policy = await federation.trust()

    async def take(organization_id: str, number: int) -> bool:
        token = store.ExchangedToken(organization_id, f"{number}", policy.id, time.time() + 300)
        with contextlib.suppress(TokenRefused):
            await limited.take(token)
            return True
        return False

    assert [await take("org_1", number) for number in range(4)] == [True, True, False, False]
    assert await take("org_2", 1)
    await federation.server.db.write(lambda tx: store.prune_exchanged(tx, tx.now + 301, 500))
    assert await take("org_1", 0)


@pytest.mark.feature("A6.revocation")
async def test_removing_the_policy_or_disabling_the_account_ends_its_tokens(federation: Federation) -> None:
    policy = await federation.trust()
    answer = (await federation.exchange(federation.issuer.token())).json()["access_token"]
    await federation.remove(policy)
    async with federation.server.client(answer) as client:
        assert (await client.get("/api/v1/me")).status_code == 401
    assert await federation.status(federation.issuer.token(jti="1")) == 401
    await federation.trust()
    assert await federation.status(federation.issuer.token(jti="2")) == 200
    change = AccountChange(is_disabled=True)
    await access.change_account(federation.server.db, federation.owner, federation.account_id, change)
    # The cache of this server may not know yet: the statement that takes the token does.
    assert await federation.status(federation.issuer.token(jti="3")) == 401


@pytest.mark.feature("A3.generic")
async def test_every_failure_has_the_same_answer_and_the_audit_log_has_the_reason(federation: Federation) -> None:
    issuer, server = federation.issuer, federation.server
    await federation.trust()
    now = int(time.time())
    untrusted = await access.create_account(server.db, federation.owner, "plain", "")
    expected = [
        (issuer.token(aud="elsewhere"), None, "the token's audience is that of no trust policy"),
        (issuer.token(sub="somebody"), None, "claims do not match: sub"),
        (issuer.token(exp=now - 400), None, "the token expired 400 s ago by this server's clock"),
        (issuer.token(iss="https://evil.example"), None, "no trust policy of the account names the token's issuer"),
        (issuer.token(iss=URL), None, "no trust policy of the account names the token's issuer"),
        (issuer.token()[:-4] + "AAAA", None, "the token's signature is not valid"),
        (issuer.sign({"iss": issuer.url}, kid="unknown"), None, "the issuer has no key that fits the token"),
        ("garbage", None, "the token is not a signed JSON web token"),
        (issuer.token(), f"{server.organization_id}:{untrusted.id}", ""),
        (issuer.token(), f"{server.organization_id}:sac_{'0' * 32}", ""),
        (issuer.token(), "nowhere:ci", ""),
        (issuer.token(), "nobody", ""),
        (issuer.token(), f"default:\x00{untrusted.id}", ""),
    ]
    answers = [await federation.exchange(token, client_id) for token, client_id, _ in expected]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
    assert answers[0].json()["detail"] == GENERIC
    assert min(answer.elapsed.total_seconds() for answer in answers) >= FAILURE_SECONDS * 0.9
    found = await federation.reasons()
    assert {reason for _, _, reason in expected if reason} <= {reason.replace("401 s", "400 s") for reason in found}
    rows = await server.db.read(
        lambda tx: tx.all("SELECT organization_id, target_id, address FROM audit WHERE action = 'token_exchange.fail'")
    )
    named = [row for row in rows if row["target_id"]]
    assert {(row["organization_id"], row["target_id"]) for row in named} == {
        (server.organization_id, federation.account_id)
    }


@pytest.mark.feature("A3.generic")
async def test_an_issuer_that_does_not_answer_is_a_failure_like_any_other(federation: Federation) -> None:
    await federation.trust()
    federation.issuer.answers[DISCOVERY] = 500, {}, b"secret details"
    answer = await federation.exchange(federation.issuer.token())
    assert (answer.status_code, answer.json()["detail"]) == (401, GENERIC)
    assert await federation.reasons() == ["the issuer's keys cannot be read: 127.0.0.1 answered 500"]


@pytest.mark.feature("A3.exchange")
@pytest.mark.parametrize(
    "changes",
    [
        {"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"},
        {"subject_token": ""},
        {"client_secret": "tcs_x"},
        {"actor_token": "x"},
        {"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"},
        {"grant_type": JWT_BEARER},
        {"grant_type": "password"},
    ],
)
async def test_a_request_that_is_not_of_the_standard_is_told_so(
    federation: Federation, changes: dict[str, str]
) -> None:
    answer = await federation.exchange(federation.issuer.token(), **changes)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] in ("invalid_request", "unsupported_grant_type")


@pytest.mark.feature("A3.policies", "W1.issuer")
async def test_tokens_for_clouds_are_not_exchanged_whatever_their_issuer_is_called(federation: Federation) -> None:
    """With an issuer of another name, somebody could let the tokens that a cloud was shown stand for a service account."""
    server = federation.server
    own = await open_identity(
        server.db, Keyring([b"k" * 32]), server.identity.url, (federation.issuer.url,), issuer=federation.issuer.url
    )
    await federation.trust()  # made before the setting
    token = federation.issuer.token()
    with pytest.raises(Unauthenticated):
        await own.federation.exchange(federation.client_id, token, "192.0.2.7")
    await own.failures.step()
    assert await federation.reasons() == ["no trust policy of the account names the token's issuer"]
    assert own.federation.trust.own_issuers == {server.identity.url, federation.issuer.url}
