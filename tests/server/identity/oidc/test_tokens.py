"""A valid secret gets an access token, and a forged, expired or revoked one gets nothing."""

import asyncio
import base64
import hmac
import time
from collections import Counter
from typing import Any

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from terracrew.api.access import Role
from terracrew.errors import Unauthenticated
from terracrew.server.identity.access import service as access
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.identity.keys.signing import GENERIC
from terracrew.server.identity.limits import GUESSES
from terracrew.server.identity.oidc.tokens import LIFETIME_SECONDS
from terracrew.server.principals.model import SYSTEM
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import change_runners
from tests.server.identity.identity_server import URL, IdentityServer


async def claims_of(server: IdentityServer, token: str) -> dict[str, Any]:
    return await server.identity.tokens.signing.verify(token, "at+jwt")


@pytest.mark.feature("A1.exchange")
async def test_a_service_account_trades_its_secret_for_a_short_lived_token(server: IdentityServer) -> None:
    account, secret_id, secret = await server.account()
    answer = await server.exchange(f"{server.organization_id}:{account}", secret)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    assert (body["token_type"], body["expires_in"]) == ("Bearer", LIFETIME_SECONDS)
    claims = await claims_of(server, body["access_token"])
    assert claims | {"iat": 0, "exp": 0} == {
        "iss": URL,
        "sub": account,
        "aud": "terracrew",
        "iat": 0,
        "exp": 0,
        "org": server.organization_id,
        "kind": "service_account",
        "sid": secret_id,
    }
    assert 0 < claims["exp"] - time.time() <= 900
    principal = await principal_from_bearer(server.identity, body["access_token"])
    assert (principal.kind, principal.id, principal.organization_id) == (
        "service_account",
        account,
        server.organization_id,
    )


@pytest.mark.feature("A1.exchange", "T1.paths")
async def test_a_service_account_may_be_named_by_its_path_but_only_with_its_own_secret(server: IdentityServer) -> None:
    await server.group("spectre")
    account, _, secret = await server.account("bot", "spectre")
    _, _, other_secret = await server.account("other", "spectre")
    answer = await server.exchange(f"{server.organization_id}:spectre/bot", secret)
    assert (await claims_of(server, answer.json()["access_token"]))["sub"] == account
    foreign = await server.organization("elsewhere")
    for client_id, tried in (
        (f"{server.organization_id}:spectre/bot", other_secret),
        (f"{server.organization_id}:spectre/none", secret),
        (f"{foreign}:spectre/bot", secret),
        ("spectre/none", secret),
    ):
        refused = await server.exchange(client_id, tried)
        assert (refused.status_code, refused.json()["detail"]) == (401, GENERIC)


@pytest.mark.feature("A1.prefix")
async def test_the_organization_may_be_given_by_name_and_the_secret_by_http_basic(server: IdentityServer) -> None:
    account, _, secret = await server.account()
    for client_id in (f"default:{account}", f"default%3A{account}"):
        basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        async with server.client(headers={"Authorization": f"Basic {basic}"}) as client:
            answer = await client.post("/connect/token", data={"grant_type": "client_credentials"})
        assert answer.status_code == 200


@pytest.mark.feature("A1.prefix")
async def test_a_client_id_is_enough_without_its_organization(server: IdentityServer) -> None:
    """The dashboard showed `sac_…`, and /connect/token answered it with 401: only `org_…:sac_…` was accepted."""
    account, _, secret = await server.account()
    runner, worker_token = await server.runner(server.organization_id)
    await server.organization("elsewhere")
    for client_id, credential in ((account, secret), (runner, worker_token)):
        answer = await server.exchange(client_id, credential)
        assert answer.status_code == 200, answer.text
        claims = await claims_of(server, answer.json()["access_token"])
        assert (claims["sub"], claims["org"]) == (client_id, server.organization_id)


@pytest.mark.feature("A2.exchange")
async def test_a_worker_id_and_token_go_through_the_same_endpoint(server: IdentityServer) -> None:
    runner, secret = await server.runner(server.organization_id)
    answer = await server.exchange(f"{server.organization_id}:{runner}", secret)
    principal = await principal_from_bearer(server.identity, answer.json()["access_token"])
    assert (principal.kind, principal.id, principal.organization_id) == ("runner", runner, server.organization_id)
    shared, secret = await server.runner(None, "built-in")
    answer = await server.exchange(shared, secret)
    principal = await principal_from_bearer(server.identity, answer.json()["access_token"])
    assert (principal.id, principal.organization_id) == (shared, None)


@pytest.mark.feature("A1.refused", "A5.one")
async def test_every_wrong_client_gets_the_same_answer(server: IdentityServer) -> None:
    account, _, secret = await server.account()
    other = await server.organization("other")
    runner, worker_token = await server.runner(server.organization_id)
    wrong = [
        (f"{server.organization_id}:{account}", "tcs_" + "x" * 43),
        (f"{other}:{account}", secret),
        (account, "tcs_" + "x" * 43),
        (account, worker_token),
        (f"org_nowhere:{account}", secret),
        (f"{server.organization_id}:{runner}", secret),
        (runner, secret),
        (f"{server.organization_id}:{account}", worker_token),
        (f"{server.organization_id}:{account}", "tcs_\ud7ff\x00"),
        (f"\x00:{account}", secret),
        (":", secret),
    ]
    answers = [await server.exchange(*each, address=f"10.0.0.{n}") for n, each in enumerate(wrong)]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    said = answers[0].json()
    assert (said["error"], said["code"]) == ("invalid_client", "unauthenticated")
    assert said["error_description"] == said["detail"] == "this credential is not valid"
    assert answers[0].headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ("", "invalid_request"),
        ("grant_type=client_credentials", "invalid_request"),
        ("grant_type=password&client_id=a&client_secret=b", "unsupported_grant_type"),
        ("grant_type=client_credentials&client_id=a&client_id=c&client_secret=b", "invalid_request"),
    ],
)
async def test_a_malformed_request_is_told_what_it_lacks(server: IdentityServer, form: str, error: str) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    async with server.client(headers=kind) as client:
        answer = await client.post("/connect/token", content=form)
        assert (answer.status_code, answer.json()["error"]) == (400, error)
        answer = await client.post("/connect/token", content="{}", headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        answer = await client.post("/connect/token", content="client_secret=" + "x" * 20_000)
        assert answer.status_code == 413


async def test_guessing_is_slowed_down_and_who_knows_the_secret_gets_through(server: IdentityServer) -> None:
    account, _, secret = await server.account()
    client_id = f"{server.organization_id}:{account}"
    answers = await asyncio.gather(*[server.exchange(client_id, f"tcs_{number}") for number in range(60)])
    assert Counter(answer.status_code for answer in answers) == {401: GUESSES.failures, 429: 60 - GUESSES.failures}
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers if answer.status_code == 429)
    assert (await server.exchange(client_id, secret)).status_code == 200


@pytest.mark.feature("A6.revocation")
async def test_a_token_ends_with_its_secret_and_the_other_secret_goes_on(server: IdentityServer) -> None:
    account, secret_id, secret = await server.account()
    owner = await server.user("olga", Role.OWNER)
    _, _, second = await access.create_secret(server.db, owner, account, None)
    client_id = f"{server.organization_id}:{account}"
    first_token, second_token = [
        (await server.exchange(client_id, each)).json()["access_token"] for each in (secret, second.text)
    ]
    for token in (first_token, second_token):
        await principal_from_bearer(server.identity, token)
    listener = asyncio.create_task(server.identity.tokens.forget_revoked())
    with server.db.listen("access") as wakeups:
        await asyncio.sleep(0)
        await server.db.write(lambda tx: access.revoke_secret(tx, owner, account, secret_id))
        assert await wakeups.get(5) == {("access", account)}, "the hub ends its connections by this"
    async with asyncio.timeout(4):  # less than it would be remembered without the wake-up
        while True:
            try:
                await principal_from_bearer(server.identity, first_token)
            except Unauthenticated:
                break
            await server.db.read(lambda tx: tx.one("SELECT 1 AS one"))
    assert (await principal_from_bearer(server.identity, second_token)).id == account
    assert (await server.exchange(client_id, secret)).status_code == 401
    listener.cancel()


@pytest.mark.feature("A6.revocation")
async def test_a_new_worker_token_or_a_removed_runner_ends_the_old_tokens(server: IdentityServer) -> None:
    runner, secret = await server.runner(server.organization_id)
    token = (await server.exchange(f"default:{runner}", secret)).json()["access_token"]
    await principal_from_bearer(server.identity, token)
    await change_runners(server.db, runner, worker_token_sha256="another")
    server.identity.tokens.forget(runner)
    with pytest.raises(Unauthenticated):
        await principal_from_bearer(server.identity, token)
    await server.run("DELETE FROM runners WHERE id = :id", id=runner)
    with pytest.raises(Unauthenticated):
        await principal_from_bearer(server.identity, token)


async def test_an_expired_secret_gets_nothing_and_ends_what_it_got(server: IdentityServer, clock: ShiftedClock) -> None:
    account, _, _ = await server.account()
    _, _, secret = await access.create_secret(server.db, await server.user("olga", Role.OWNER), account, 1)
    token = (await server.exchange(f"default:{account}", secret.text)).json()["access_token"]
    clock.advance(86400)
    with pytest.raises(Unauthenticated):
        await principal_from_bearer(server.identity, token)
    assert (await server.exchange(f"default:{account}", secret.text)).status_code == 401


async def good_claims(server: IdentityServer) -> dict[str, Any]:
    account, _, secret = await server.account()
    return await claims_of(server, (await server.exchange(f"default:{account}", secret)).json()["access_token"])


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


@pytest.mark.feature("A5.one", "X4.executor")
async def test_a_forged_or_misused_token_gets_one_and_the_same_answer(server: IdentityServer) -> None:
    claims = await good_claims(server)
    sign = server.identity.tokens.signing.sign
    public = server.identity.tokens.signing.jwks()["keys"][0]
    kid, stranger = public["kid"], ECKey.generate_key("P-256", private=True)
    header = {"alg": "ES256", "kid": kid, "typ": "at+jwt"}
    good = await sign(claims, "at+jwt")
    head, body, signature = good.split(".")
    signed_by_secret = f"{part(header | {'alg': 'HS256'})}.{body}"
    pem = ECKey.import_key(public).as_pem(private=False)
    mac = base64.urlsafe_b64encode(hmac.digest(pem, signed_by_secret.encode(), "sha256")).decode().rstrip("=")
    other = await server.organization("other")
    wrong = {
        "no algorithm": f"{part(header | {'alg': 'none'})}.{body}.",
        "no algorithm, signature kept": f"{part(header | {'alg': 'none'})}.{body}.{signature}",
        "the public key as a shared secret": f"{signed_by_secret}.{mac}",
        "signed by another key under our key's id": jwt.encode(header, claims, stranger, ["ES256"]),
        "a key that the token brings along": jwt.encode(
            header | {"kid": "mine", "jwk": stranger.as_dict(private=False)}, claims, stranger, ["ES256"]
        ),
        "a key that nobody knows": jwt.encode(header | {"kid": "key_x"}, claims, stranger, ["ES256"]),
        "changed claims": f"{head}.{part(claims | {'org': other})}.{signature}",
        "of another use": await sign(claims, "JWT"),
        "for another audience": await sign(claims | {"aud": "sts.amazonaws.com"}, "at+jwt"),
        "for two audiences": await sign(claims | {"aud": ["terracrew", "x"]}, "at+jwt"),
        "without audience": await sign({k: v for k, v in claims.items() if k != "aud"}, "at+jwt"),
        "of another issuer": await sign(claims | {"iss": "https://elsewhere.test"}, "at+jwt"),
        "expired": await sign(claims | {"exp": int(time.time()) - 60}, "at+jwt"),
        "without expiry": await sign({k: v for k, v in claims.items() if k != "exp"}, "at+jwt"),
        "from the future": await sign(claims | {"iat": int(time.time()) + 600}, "at+jwt"),
        "of another organization": await sign(claims | {"org": other}, "at+jwt"),
        "of no organization": await sign(claims | {"org": None}, "at+jwt"),
        "of another kind": await sign(claims | {"kind": "user"}, "at+jwt"),
        "of a runner with that id": await sign(claims | {"kind": "runner"}, "at+jwt"),
        "of a secret that never was": await sign(claims | {"sid": "sec_x"}, "at+jwt"),
        "nonsense": "a.b.c",
        "dots": "..",
        "too long": good + "A" * 5000,
        "not ASCII": good + "é",
    }
    assert (await principal_from_bearer(server.identity, good)).id == claims["sub"]
    for what, token in wrong.items():
        with pytest.raises(Unauthenticated) as error:
            await principal_from_bearer(server.identity, token)
        assert str(error.value) == GENERIC, what


@pytest.mark.parametrize(
    "token", ["", "tcu_", "tcu_x", "tcw_x", "tco_x", "tcs_x", "tch_x", "tcj_x", "tcd_x", "x" * 100_000, "\x00"]
)
async def test_a_token_that_is_none_of_ours_gets_that_answer_too(server: IdentityServer, token: str) -> None:
    with pytest.raises(Unauthenticated) as error:
        await principal_from_bearer(server.identity, token)
    assert str(error.value) == GENERIC


async def test_a_secret_is_no_bearer_token(server: IdentityServer) -> None:
    _, _, secret = await server.account()
    _, worker_token = await server.runner(server.organization_id)
    for token in (secret, worker_token):
        with pytest.raises(Unauthenticated):
            await principal_from_bearer(server.identity, token)


async def test_no_secret_shows_in_what_is_printed_of_it(server: IdentityServer) -> None:
    account, _, secret = await server.account()
    token = await server.identity.tokens.exchange(f"default:{account}", secret, "")
    _, _, made = await access.create_secret(server.db, await server.user("ann", Role.OWNER), account, None)
    assert token.access_token not in repr(token)
    assert made.text not in repr(made) + str(made)
    assert SYSTEM.name in repr(SYSTEM)
