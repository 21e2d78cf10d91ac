"""Tokens of a real cluster's service accounts are exchanged; the cluster replaces its signing key, and goes away."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from terracrew.api.access import Role
from terracrew.server.db import Database
from terracrew.server.identity.access import service as access
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.identity.federation.issuers import RETRY_SECONDS
from tests.machine import platforms
from tests.machine.oidc_issuer import Issuer
from tests.machine.platforms.kubernetes import Cluster, own_cluster
from tests.server.identity.federation.conftest import Federation
from tests.server.identity.identity_server import URL, build

pytestmark = [pytest.mark.platform("kubernetes"), pytest.mark.timeout(4000)]


@dataclass
class Trusting:
    """A server that trusts the service account `runner` of a namespace."""

    federation: Federation
    cluster: Cluster
    namespace: str

    def token(self, account: str = "runner", audience: str = URL) -> str:
        return self.cluster.token(self.namespace, account, f"--audience={audience}")

    async def accepts_within(self, seconds: float, token: str) -> bool:
        deadline = time.monotonic() + seconds
        while (await self.federation.status(token)) != 200:
            if time.monotonic() > deadline:
                return False
            # The server does not ask an issuer more often than every few seconds, and bounds how often somebody fails.
            await asyncio.sleep(3)
        return True


async def trusting(
    database: Database, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, cluster: Cluster, namespace: str
) -> Trusting:
    monkeypatch.setenv("SSL_CERT_FILE", str(cluster.places.authority))
    server = await build(database, (cluster.url,))
    owner = await server.user("owner", Role.OWNER)
    account = await access.create_account(server.db, owner, "runner", "")
    made = Trusting(Federation(server, issuer, owner, account.id), cluster, namespace)
    for name in ("runner", "other"):
        cluster.kubectl("create", "serviceaccount", name, "--namespace", namespace)
    claims = {"sub": f"system:serviceaccount:{namespace}:runner", "/kubernetes.io/namespace": namespace}
    await made.federation.trust(issuer=cluster.url, claims=claims, is_reusable=True)
    return made


@pytest.fixture
async def shared(database: Database, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Trusting]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace() as namespace:
        yield await trusting(database, issuer, monkeypatch, cluster, namespace)


@pytest.fixture
def own() -> Iterator[Cluster]:
    platforms.need("kubernetes")
    with own_cluster(has_node=False) as cluster:
        yield cluster


@pytest.mark.feature("A3.exchange")
async def test_a_token_of_a_cluster_becomes_a_token_of_the_account(shared: Trusting) -> None:
    token = shared.token()
    answer = await shared.federation.exchange(token)
    assert answer.status_code == 200, await shared.federation.reasons()
    who = await principal_from_bearer(shared.federation.server.identity, answer.json()["access_token"])
    assert (who.kind, who.id) == ("service_account", shared.federation.account_id)
    assert await shared.federation.status(token) == 200, "the policy is reusable"


@pytest.mark.feature("A3.exchange", "A3.generic")
async def test_a_token_for_somebody_else_or_of_another_account_is_refused(shared: Trusting) -> None:
    tokens = {
        shared.token(audience="https://another.example"): "the token's audience is that of no trust policy",
        # What every pod has by default is for the API of the cluster.
        shared.cluster.token(shared.namespace, "runner"): "the token's audience is that of no trust policy",
        shared.token(account="other"): "claims do not match: sub",
    }
    for token, reason in tokens.items():
        assert await shared.federation.status(token) == 401
        assert (await shared.federation.reasons())[-1].startswith(reason)


@pytest.mark.feature("A3.exchange")
async def test_another_issuer_cannot_make_tokens_of_the_cluster(shared: Trusting) -> None:
    issuer = shared.federation.issuer
    claims = {
        "sub": f"system:serviceaccount:{shared.namespace}:runner",
        "kubernetes.io": {"namespace": shared.namespace},
    }
    assert await shared.federation.status(shared.token()) == 200
    assert await shared.federation.status(issuer.token(URL, **claims)) == 401
    assert await shared.federation.status(issuer.token(URL, iss=shared.cluster.url, **claims)) == 401
    assert "the issuer has no key that fits the token" in await shared.federation.reasons()


@pytest.mark.feature("A3.keys")
async def test_a_cluster_replaces_its_signing_key_and_goes_away(
    own: Cluster, database: Database, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own.namespace() as namespace:
        made = await trusting(database, issuer, monkeypatch, own, namespace)
        old = made.token()
        assert await made.federation.status(old) == 200, await made.federation.reasons()
        own.replace_signing_key()
        new = made.token()
        assert await made.accepts_within(RETRY_SECONDS + 10, new), await made.federation.reasons()
        assert await made.federation.status(old) == 401, "its key was withdrawn"
        assert (await made.federation.reasons())[-1] == "the issuer has no key that fits the token"

        own.stop("kube-apiserver")
        assert await made.federation.status(new) == 200, "the keys are known"
        own.start("kube-apiserver")
