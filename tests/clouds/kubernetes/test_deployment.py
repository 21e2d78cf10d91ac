"""Deployments on a real cluster, by an identity that may do what its page shows and nothing else."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from terracrew import ids
from terracrew.clouds.contract import CloudRefused, CloudSilent
from terracrew.clouds.kubernetes import client as cluster_client
from terracrew.clouds.kubernetes import policies
from terracrew.clouds.model import StartRequest
from terracrew.kubernetes_api.api import KubernetesApi
from tests.clouds.kubernetes.bench import ACCOUNT, CloudBench, Steps, worker_token

pytestmark = [
    pytest.mark.platform("kubernetes"),
    pytest.mark.timeout(300),
]


async def test_a_deployment_that_fails_half_way_removes_what_it_made_and_nothing_else(bench: CloudBench) -> None:
    steps, deployment = Steps(), bench.deployment()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    bench.cluster.apply(bench.namespace, quota)
    with pytest.raises(CloudRefused, match=r"exceeded quota.*Raise the ResourceQuota"):
        await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), steps)
    assert list(steps.failed_steps) == ["trial"]
    assert bench.names() == []
    [refused] = await bench.cloud.start(deployment, [StartRequest("tc-1")])
    assert getattr(refused, "code", "") == "missing", "its service account is not there"

    bench.kubectl("delete", "resourcequota", "none")
    await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    bench.cluster.apply(bench.namespace, quota)
    bench.cluster.wait("quota", lambda: "used" in bench.cluster.get(bench.namespace, "resourcequota", "none")["status"])
    [refused] = await bench.cloud.start(deployment, [StartRequest("tc-1")])
    assert getattr(refused, "code", "") == "quota"
    with pytest.raises(CloudRefused, match="exceeded quota"):
        await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    assert len(bench.names()) == 2, "what an earlier job has made stays"


@pytest.mark.parametrize("kind", ["serviceaccounts", "secrets"])
async def test_what_was_made_by_a_request_without_an_answer_is_removed_again(
    bench: CloudBench, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_client, "MAX_RETRY_SECONDS", 1.0)
    request, made = KubernetesApi.request, list[str]()

    async def lose(api: KubernetesApi, method: str, path: str, body: Any, query: Mapping[str, str]) -> bytes:
        if (method, path) != ("POST", kind):
            return await request(api, method, path, body, query)
        if not made:
            await request(api, method, path, body, query)
            made.extend(bench.names(kind))
        raise TimeoutError

    with monkeypatch.context() as patch:
        patch.setattr(KubernetesApi, "request", lose)
        with pytest.raises(CloudSilent, match="does not answer"):
            await bench.cloud.deploy(bench.deployment(), worker_token(), ids.new("fjb"), Steps())
    assert len(made) == 1
    assert bench.names() == []


async def test_pods_of_strangers_are_never_used_or_removed(bench: CloudBench) -> None:
    deployment = bench.deployment()
    pod = {"containers": [{"name": "a", "image": deployment.settings.image}], "terminationGracePeriodSeconds": 1}
    bench.cluster.apply(bench.namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tc-1"}, "spec": pod})
    await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    [refused] = await bench.cloud.start(deployment, [StartRequest("tc-1")])
    assert "was not made by Terracrew" in getattr(refused, "words", "")
    with pytest.raises(CloudRefused, match="left alone"):
        await bench.cloud.stop(deployment, f"{bench.namespace}/tc-1", "a test")
    assert await bench.cloud.watch(deployment, []) == []
    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
    assert "tc-1" in bench.kubectl("get", "pods", "--output", "name")


async def test_a_missing_permission_is_named_with_its_purpose_and_with_what_to_paste(bench: CloudBench) -> None:
    async def failure() -> tuple[str, str]:
        steps = Steps()
        await bench.cloud.check(steps)
        return steps.failed_steps.get("permissions", ("", ""))

    everything, found = len(policies.PERMISSIONS), ("", "")
    for missing in policies.PERMISSIONS:
        bench.grant(missing)
        expected = f"1 of {everything} are missing in the namespace {bench.namespace}: {missing}"
        async with asyncio.timeout(30):  # an API server learns of a Role a moment later
            while (found := await failure())[0] != expected:
                await asyncio.sleep(0.05)
        assert missing.purpose in found[1]
    assert "kind: RoleBinding" in found[1]
    assert f"name: {ACCOUNT}\n" in found[1]
    bench.kubectl("delete", "rolebinding", "--all")
    async with asyncio.timeout(30):
        while f"{everything} of {everything} are missing" not in (await failure())[0]:
            await asyncio.sleep(0.05)


async def test_a_connection_with_all_permissions_passes_every_check(bench: CloudBench) -> None:
    steps = Steps()
    assert await bench.cloud.check(steps, bench.deployment(max_instances=2)), steps.failed_steps
    assert list(steps.done_steps) == [
        *("sign_in", "other_subject", "namespace", "permissions", "quota", "trial", "image"),
    ]
    assert steps.done_steps["sign_in"][1] == f"as {bench.user}"
    assert "may do nothing" in steps.done_steps["other_subject"][1]
    assert bench.names() == [], "a test of the connection makes nothing"
