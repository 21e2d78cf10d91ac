"""The contract of clouds on a real cluster of Kubernetes."""

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import Any

import pytest

from terracrew.clouds.kubernetes import manifests, names
from terracrew.clouds.model import Deployment
from terracrew.kubernetes_api.api import KubernetesApi
from tests.clouds.kubernetes.bench import CloudBench
from tests.contracts.cloud import CloudContract, Killed
from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster

pytestmark = [pytest.mark.platform("kubernetes"), pytest.mark.timeout(300)]


class ClusterPlace:
    def __init__(self, bench: CloudBench) -> None:
        self._bench, self.cloud = bench, bench.cloud

    def deployment(self, **settings: Any) -> Deployment:
        return self._bench.deployment(**settings)

    def things(self, deployment: Deployment) -> list[str]:
        return self._bench.names("secrets", "serviceaccounts", selector=names.runner_selector(deployment))

    def instances(self, deployment: Deployment) -> list[str]:
        listed = self._bench.names("pods", selector=names.runner_selector(deployment))
        return [each.removeprefix("pod/") for each in listed]

    def variables(self, deployment: Deployment, instance: str) -> dict[str, str]:
        assert instance in self.instances(deployment)
        [container] = json.loads(self._bench.kubectl("get", "pod", instance, "-o", "json"))["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"] if "value" in each}

    def token(self, deployment: Deployment) -> str:
        name = names.object_name(deployment.runner_id)
        return base64.b64decode(self._data(name)[names.TOKEN_KEY]).decode()

    def take_a_name(self, deployment: Deployment) -> Callable[[], bool]:
        name = names.object_name(deployment.runner_id)
        self._bench.kubectl("create", "secret", "generic", name, "--from-literal=worker-token=theirs")
        # One label of ours is not enough: somebody may have copied it.
        self._bench.kubectl("label", "secret", name, f"{names.RUNNER_LABEL}={deployment.runner_id}")
        before = self._data(name)
        return lambda: self._data(name) == before

    @contextlib.contextmanager
    def killing(self, number: int, *, happens: bool) -> Generator[None]:
        request, count = KubernetesApi.request, 0

        async def cut(api: KubernetesApi, method: str, path: str, body: Any, query: Mapping[str, str]) -> bytes:
            nonlocal count
            count += 1
            if count > number and not (happens and count == number + 1):
                raise Killed
            answer = await request(api, method, path, body, query)
            if count == number + 1:
                raise Killed
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KubernetesApi, "request", cut)
            yield

    def _data(self, secret: str) -> dict[str, str]:
        return self._bench.cluster.get(self._bench.namespace, "secret", secret)["data"]


class TestKubernetes(CloudContract):
    @pytest.fixture
    async def place(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterPlace]:
        # The image of the tests ends at once when it is told to.
        monkeypatch.setattr(manifests, "GRACE_SECONDS", 2)
        cluster = Cluster.of(platforms.need("kubernetes"))
        with cluster.namespace() as namespace:
            bench = CloudBench(cluster, namespace)
            bench.grant()
            yield ClusterPlace(bench)
            await bench.cloud.close()
