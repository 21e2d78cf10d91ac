"""An executor gets a token for a cloud that names its module and phase, and that this server itself does not accept."""

import time
from typing import Any

import msgspec
import pytest
from joserfc import jws, jwt
from joserfc.jwk import KeySet

from terracrew.clouds.model import AwsAccount, CloudIdentity
from terracrew.errors import Invalid, Unauthenticated
from terracrew.server.identity.oidc import cloud
from terracrew.server.principals.model import AUDIENCE
from tests.builders.job_rows import change_jobs, change_modules
from tests.server.application import Application
from tests.server.hub.hub_clients import Hub
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

CLOUD = "sts.amazonaws.com"


async def running(runner: SimulatedRunner, kind: str, *audiences: str) -> SimulatedAttempt:
    module_id = await runner.rows.module("vpc")
    given = msgspec.json.encode(audiences or (CLOUD,)).decode()
    await change_modules(runner.rows.db, module_id, oidc_audiences=given)
    return await runner.run(module_id, kind)


async def minted(attempt: SimulatedAttempt, phase: str, audience: str = CLOUD) -> str:
    answer = await attempt.executor.post(f"{attempt.path}/cloud-token", json={"audience": audience, "phase": phase})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.json()["expires_in"] == 600
    return answer.json()["token"]


async def refused(attempt: SimulatedAttempt, status: int, phase: str = "plan", audience: str = CLOUD) -> str:
    body = {"audience": audience, "phase": phase}
    return await attempt.executor.refused("POST", f"{attempt.path}/cloud-token", status, json=body)


async def as_a_cloud_reads_it(runner: SimulatedRunner, token: str) -> dict[str, Any]:
    """From the issuer's address to its keys, as any OIDC federation does."""
    anybody = runner.app.stranger()
    about = (await anybody.get("/.well-known/openid-configuration")).json()
    keys = (await anybody.get(about["jwks_uri"])).json()
    algorithms = about["id_token_signing_alg_values_supported"]
    claims = jwt.decode(token, KeySet.import_key_set(keys), algorithms).claims
    assert claims["iss"] == about["issuer"] == runner.server.settings.url
    assert set(claims) == set(about["claims_supported"])
    return claims


@pytest.mark.feature("X4.cloud")
async def test_a_token_names_organization_module_and_phase_and_one_audience(runner: SimulatedRunner) -> None:
    attempt = await running(runner, "APPLY", CLOUD, "api://azure")
    token = await minted(attempt, "plan", "api://azure")
    claims = await as_a_cloud_reads_it(runner, token)
    assert claims["sub"] == "organization:default:module:vpc:phase:plan"
    assert claims["aud"] == "api://azure"
    assert claims["exp"] - claims["iat"] == 600
    assert abs(claims["iat"] - time.time()) < 60
    assert (claims["job_id"], claims["attempt"], claims["phase"]) == (attempt.ref.job_id, 1, "plan")
    assert (claims["organization_id"], claims["module_id"]) == (runner.rows.organization, attempt.module_id)
    again = await as_a_cloud_reads_it(runner, await minted(attempt, "plan", "api://azure"))
    assert again["jti"] != claims["jti"]


@pytest.mark.feature("X4.cloud")
@pytest.mark.parametrize("kind", ["APPLY", "DESTROY"])
async def test_the_phase_apply_is_given_only_after_the_attempt_has_begun(runner: SimulatedRunner, kind: str) -> None:
    attempt = await running(runner, kind)
    assert "has not begun" in await refused(attempt, 409, "apply")
    await attempt.deliver()
    await attempt.begin()
    claims = await as_a_cloud_reads_it(runner, await minted(attempt, "apply"))
    assert claims["sub"] == "organization:default:module:vpc:phase:apply"


@pytest.mark.feature("X4.cloud")
async def test_a_plan_never_gets_a_token_of_the_phase_apply(runner: SimulatedRunner) -> None:
    attempt = await running(runner, "APPLY")
    await change_jobs(runner.rows.db, type="PLAN")
    assert "changes nothing" in await refused(attempt, 403, "apply")
    await change_jobs(runner.rows.db, type="APPLY")
    await attempt.deliver()
    await attempt.begin()
    await change_jobs(runner.rows.db, type="PLAN")
    assert "changes nothing" in await refused(attempt, 403, "apply"), "even if its row says that it has begun"


@pytest.mark.feature("X4.cloud")
async def test_only_the_modules_own_audiences_and_phases_that_exist_are_served(runner: SimulatedRunner) -> None:
    attempt = await running(runner, "PLAN")
    assert "oidc_audiences" in await refused(attempt, 403, audience="https://elsewhere.example")
    assert "oidc_audiences" in await refused(attempt, 403, audience=AUDIENCE)
    await refused(attempt, 400, phase="destroy")


@pytest.mark.feature("X4.cloud")
async def test_nobody_but_the_current_attempts_own_executor_gets_one(runner: SimulatedRunner) -> None:
    attempt, other = await running(runner, "PLAN"), await runner.run()
    path, body = f"{attempt.path}/cloud-token", {"audience": CLOUD, "phase": "plan"}
    for who in (attempt.engine, other.executor, runner.app.admin):
        answer = await who.post(path, json=body)
        assert answer.status_code in (403, 404), answer.text
    await runner.app.stranger().refused("POST", path, 401, json=body)
    await minted(attempt, "plan")
    await attempt.lose()
    assert "no longer the current" in await refused(attempt, 409)


@pytest.mark.feature("X4.cloud")
async def test_what_a_cloud_was_shown_opens_nothing_here(hub: Hub) -> None:
    attempt = await running(hub.crew, "PLAN")
    token = await minted(attempt, "plan")
    assert jws.extract_compact(token.encode()).headers()["typ"] == "JWT"
    thief = hub.crew.bearer(token)
    await thief.refused("GET", "/api/v1/me", 401)
    await thief.refused("GET", f"{attempt.path}/state", 401)
    await thief.refused("POST", f"{attempt.path}/cloud-token", 401, json={"audience": CLOUD, "phase": "plan"})
    async with hub.connected(token) as client:
        found = await client.get("refused")
        assert (found["code"], found["is_final"]) == ("unauthenticated", True)


@pytest.mark.feature("W1.identities")
async def test_a_token_of_a_cloud_identity_names_it_alone_and_opens_nothing_here(hub: Hub) -> None:
    """The account of the identity, and everybody on the way, could otherwise act here with what it was shown."""
    server = hub.crew.server
    account = AwsAccount(role_arn="arn:aws:iam::123456789012:role/terracrew", region="eu-central-1")
    identity = CloudIdentity(
        id="cid_1",
        organization_id="org_1",
        name="aws-prod",
        subject="organization:default:cloud-identity:aws-prod:7f3c91e2",
        audience=CLOUD,
        issuer=server.identity.issuer.url,
        cloud=account,
    )
    token = (await cloud.mint_for_identity(server.identity.tokens.signing, identity)).token
    keys = (await hub.crew.app.stranger().get("/.well-known/jwks.json")).json()
    claims = jwt.decode(token, KeySet.import_key_set(keys), ["ES256"]).claims
    assert (claims["sub"], claims["aud"], claims["exp"] - claims["iat"]) == (identity.subject, CLOUD, 600)
    assert set(claims) == {"iss", "sub", "aud", "iat", "nbf", "exp", "jti", "organization_id"}
    assert jws.extract_compact(token.encode()).headers()["typ"] == "JWT"
    thief = hub.crew.bearer(token)
    await thief.refused("GET", "/api/v1/me", 401)
    await thief.refused("POST", "/api/v1/modules", 401, json={})
    async with hub.connected(token) as client:
        assert (await client.get("refused"))["code"] == "unauthenticated"
    own = msgspec.structs.replace(identity, audience=AUDIENCE)
    with pytest.raises(Invalid, match="this server's own"):
        await cloud.mint_for_identity(server.identity.tokens.signing, own)


@pytest.mark.feature("X4.cloud")
async def test_no_token_is_made_for_this_server_itself_and_none_of_its_kind_would_pass(runner: SimulatedRunner) -> None:
    subject = cloud.Subject("org_1", "default", "mod_1", "vpc", "job_1", 1, "plan")
    with pytest.raises(Invalid, match="this server's own"):
        await cloud.mint(runner.server.identity.tokens.signing, runner.server.identity.issuer.url, subject, AUDIENCE)
    account = {"sub": "sac_1", "aud": AUDIENCE, "org": None, "kind": "service_account", "sid": "sec_1"}
    now = int(time.time())
    forged = account | {"iss": runner.server.settings.url, "iat": now, "exp": now + 600}
    tokens = runner.server.identity.tokens
    with pytest.raises(Unauthenticated):
        await tokens.signing.verify(await tokens.signing.sign(forged, cloud.KIND), "at+jwt")


@pytest.mark.feature("X4.cloud")
async def test_a_modules_audiences_are_kept_changed_and_checked(application: Application) -> None:
    new: dict[str, Any] = {"path": "vpc", "source": {"kind": "local", "path": "/srv/sources/vpc"}}
    assert (await application.admin.made("/api/v1/modules", new | {"path": "none"}))["oidc_audiences"] == []
    made = await application.admin.made("/api/v1/modules", new | {"oidc_audiences": [CLOUD]})
    assert made["oidc_audiences"] == [CLOUD]
    changed = await application.admin.patch("/api/v1/modules/vpc", json={"oidc_audiences": [CLOUD, "api://azure"]})
    assert changed.json()["oidc_audiences"] == [CLOUD, "api://azure"]
    assert (await application.admin.get("/api/v1/modules/vpc")).json().items() >= changed.json().items()
    wrong = [["terracrew"], [" Terracrew"], [""], ["x" * 201], ["a\nb"], list("abcdef"), ["a.b", "a-b"], ["a", "a"]]
    for audiences in wrong:
        request = {"json": {"oidc_audiences": audiences}}
        assert "oidc_audiences" in await application.admin.refused("PATCH", "/api/v1/modules/vpc", 400, **request)
