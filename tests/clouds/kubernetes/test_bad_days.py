"""A cluster whose API server is away for a while, in the middle of what is done."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from terracrew import ids
from terracrew.clouds.contract import CloudSilent
from terracrew.clouds.kubernetes import client as cluster_client
from terracrew.clouds.model import InstanceStarted, StartRequest
from terracrew.kubernetes_api.api import KubernetesApi
from tests.clouds.kubernetes.bench import CloudBench, Steps, worker_token
from tests.machine import platforms
from tests.machine.platforms.kubernetes import own_cluster

pytestmark = [pytest.mark.platform("kubernetes"), pytest.mark.timeout(300)]


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CloudBench]:
    """A cluster of its own without a node: its pods wait for ever."""
    monkeypatch.setattr(cluster_client, "MAX_RETRY_SECONDS", 1.0)
    platforms.need("kubernetes")
    with own_cluster(has_node=False) as cluster, cluster.namespace() as namespace:
        bench = CloudBench(cluster, namespace)
        bench.grant()
        yield bench
        await bench.cloud.close()


async def test_a_cluster_that_was_away_has_everything_once_when_it_is_back(
    bench: CloudBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = bench.deployment()
    await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    wanted = [StartRequest("tc-a-1-0"), StartRequest("tc-a-1-1")]
    [first] = await bench.cloud.start(deployment, wanted[:1])
    assert isinstance(first, InstanceStarted)

    other, job, request, count = bench.deployment(), ids.new("fjb"), KubernetesApi.request, 0

    async def cut(api: KubernetesApi, method: str, path: str, body: Any, query: Mapping[str, str]) -> bytes:
        nonlocal count
        answer = await request(api, method, path, body, query)
        count += method == "POST"
        if count == 1 and method == "POST":
            bench.cluster.stop("kube-apiserver")  # it has done what it was asked for, and the answer is lost
            raise TimeoutError
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(KubernetesApi, "request", cut)
        steps = Steps()
        with pytest.raises(CloudSilent, match=r"does not answer.* is left.*service account \S+, if it was made"):
            await bench.cloud.deploy(other, worker_token(), job, steps)
    assert list(steps.failed_steps) == ["service_account"]
    answers: Any = await bench.cloud.start(deployment, wanted)
    assert [each.code for each in answers] == ["silent", "silent"]
    with pytest.raises(CloudSilent):
        await bench.cloud.watch(deployment, [first.reference])
    steps = Steps()
    assert not await bench.cloud.check(steps), "nothing passes"
    assert set(steps.failed_steps) == set(steps.begun)

    bench.cluster.start("kube-apiserver")
    answers = await bench.cloud.start(deployment, wanted)
    assert [each.reference for each in answers] == [f"{bench.namespace}/{each.instance}" for each in wanted]
    states = await bench.cloud.watch(deployment, [first.reference])
    assert {each.instance: each.phase for each in states} == {"tc-a-1-0": "starting", "tc-a-1-1": "starting"}
    left = [each for each in await bench.cloud.found() if each.runner_id == other.runner_id]
    assert [(each.kind, each.job_id) for each in left] == [("service account", job)], "the lost answer"
    await bench.cloud.deploy(other, worker_token(), job, Steps())
    for each in (deployment, other):
        await bench.cloud.destroy(each, ids.new("fjb"), Steps())
    assert bench.names() == []
