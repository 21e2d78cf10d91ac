"""The dispatcher `kubernetes` keeps the contract of a dispatcher, with a real cluster, real executors and the real OpenTofu."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.api import KubernetesApi
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from terracrew.testing.dispatcher_contract import DispatcherContract
from tests.machine import platforms
from tests.machine.network_gate import NetworkGate
from tests.machine.platforms.kubernetes import Cluster
from tests.machine.platforms.pods import Pods

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("docker", "kubernetes"),
    pytest.mark.feature("D1.kubernetes", "D6.watched", "J9.escalation", "J9.reported", "O4.adopted"),
    pytest.mark.timeout(600),
]


class TestKubernetes(DispatcherContract):
    delivers_by_itself = True

    @pytest.fixture(autouse=True)
    def cluster(self, tmp_path: Path) -> Any:
        self.cluster_used = Cluster.of(platforms.need("kubernetes"))
        self.image = self.cluster_used.executor_image()
        with self.cluster_used.namespace() as self.namespace:
            owner = manifests.owner(str(tmp_path), "rnr_1", "one")
            self.pods = Pods(self.cluster_used, self.namespace, owner)
            yield

    @pytest.fixture
    async def gate(self) -> AsyncIterator[NetworkGate]:
        gate = NetworkGate()
        await gate.listen()
        yield gate
        await gate.close()

    def opened(self, folder: Path) -> Kubernetes:
        template = {"spec": {"hostNetwork": True}}
        settings = KubernetesSettings(
            self.image, namespace=self.namespace, image_pull_policy="Never", pod_template=template
        )
        api = KubernetesApi(Kubeconfig(Path(self.cluster_used.kubeconfig), "", {}), self.namespace)
        dispatcher = Kubernetes(settings, api, {}, manifests.owner("", "rnr_1", "one"))
        dispatcher.use_instance(str(folder))
        return dispatcher

    def kill_executor(self, directory: Path) -> None:
        os.kill(self.pods.executor_pid(directory.name), signal.SIGKILL)

    def remains(self, directory: Path) -> bool:
        return self.pods.is_running(directory.name)
