"""An API server that trusts the tokens of the server, as the page of an identity shows how to set it up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from terracrew import ids
from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.kubernetes import policies
from terracrew.clouds.kubernetes.cloud import KubernetesCloud
from terracrew.clouds.model import CloudIdentity, KubernetesCluster
from tests.clouds.kubernetes import examples
from tests.clouds.kubernetes.bench import Steps, worker_token
from tests.machine import certificates, oidc_issuer, platforms
from tests.machine.oidc_issuer import Issuer
from tests.machine.platforms.kubernetes import Cluster

pytestmark = [pytest.mark.platform("kubernetes"), pytest.mark.timeout(300)]
TRUST_SECONDS = 90.0
"""An API server notices a change of its configuration at once, and reads the keys of a new issuer a few seconds later."""


class Trusted:
    def __init__(self, cluster: Cluster, issuer: Issuer, identity: CloudIdentity) -> None:
        self.cluster, self.issuer, self.identity = cluster, issuer, identity
        self.cloud = KubernetesCloud(identity, self.sign)

    async def sign(self, is_probe: bool = False, /) -> str:
        return self.issuer.token(self.identity.audience, sub="probe:nobody" if is_probe else self.identity.subject)

    def other(self, **changes: str) -> KubernetesCloud:
        """Open the cluster as somebody whose tokens have other claims, and whose settings are the same."""

        async def sign(_is_probe: bool = False, /) -> str:
            claims = {"sub": self.identity.subject, "aud": self.identity.audience} | changes
            return self.issuer.token(claims.pop("aud"), **claims)

        return KubernetesCloud(self.identity, sign)


@pytest.fixture
async def trusted(tmp_path: Path) -> AsyncIterator[Trusted]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    pair = certificates.certificate(tmp_path)
    with oidc_issuer.running(pair=pair) as issuer, cluster.namespace() as namespace:
        settings = KubernetesCluster(
            api_url=cluster.url, ca_certificate=cluster.places.authority.read_text(), namespace=namespace
        )
        identity = msgspec.structs.replace(examples.identity(settings), issuer=issuer.url)
        [entry] = policies.authentication(identity)["jwt"]
        entry["issuer"]["certificateAuthority"] = pair[0].read_text()
        with cluster.trusting(entry):
            found = Trusted(cluster, issuer, identity)
            yield found
            await found.cloud.close()


async def test_what_the_page_shows_lets_one_identity_in_and_nobody_else(trusted: Trusted) -> None:
    steps = Steps()
    async with asyncio.timeout(TRUST_SECONDS):
        while True:
            await trusted.cloud.check(steps := Steps())
            if "sign_in" in steps.done_steps:
                break
            assert "does not accept the token" in steps.failed_steps["sign_in"][1]
            assert f"url: {trusted.issuer.url}" in steps.failed_steps["sign_in"][1]
    assert steps.done_steps["sign_in"][1] == f"as {policies.username(trusted.identity)}"
    assert set(steps.failed_steps) == {"namespace", "permissions"}, "it may do nothing yet"
    remedy = steps.failed_steps["permissions"][1].partition("--filename -`:\n")[2]
    trusted.cluster.kubectl("apply", "--filename", "-", text=remedy)

    steps = Steps()
    assert await trusted.cloud.check(steps), steps.failed_steps
    assert steps.done_steps["other_subject"][1] == "terracrew:probe:nobody may do nothing there"
    deployment = examples.deployment(ids.new("rnr"), trusted.identity.organization_id)
    await trusted.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())

    for changes, words in (
        ({"sub": "organization:acme:cloud-identity:prod:x8"}, "forbidden"),
        ({"aud": "sts.amazonaws.com"}, "does not accept the token"),
        ({"iss": "https://terracrew.other.example"}, "does not accept the token"),
    ):
        stranger = trusted.other(**changes)
        with pytest.raises(CloudRefused, match=words):
            await stranger.found()
        with pytest.raises(CloudRefused, match=words):
            await stranger.destroy(deployment, ids.new("fjb"), Steps())
        await stranger.close()
    assert len(await trusted.cloud.found()) == 2
    await trusted.cloud.destroy(deployment, ids.new("fjb"), Steps())


async def test_a_role_for_all_users_is_noticed(trusted: Trusted) -> None:
    namespace, role, binding = policies.objects(trusted.identity)
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    binding["subjects"] = [group]
    trusted.cluster.apply(namespace["metadata"]["name"], role, binding)
    async with asyncio.timeout(TRUST_SECONDS):
        while True:
            is_passed = await trusted.cloud.check(steps := Steps())
            if "sign_in" in steps.done_steps and "permissions" in steps.done_steps:
                break
    assert not is_passed
    words, remedy = steps.failed_steps["other_subject"]
    assert "every token of this server may" in words
    assert policies.username(trusted.identity) in remedy
