"""The dispatcher `kubernetes` keeps the contract of a dispatcher, with a real cluster, real executors and the real OpenTofu."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from terracrew.kubernetes_api.api import KubernetesApi
from terracrew.runner.dispatch.kubernetes import dispatcher as kubernetes_dispatcher
from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from terracrew.testing.dispatcher_contract import DispatcherContract
from tests.machine import platforms
from tests.machine.network_gate import NetworkGate
from tests.machine.platforms.cut_socket import CutPort
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
    not_started_reason = r"ErrImageNeverPull: .*terracrew-test/missing:1"

    @pytest.fixture(autouse=True)
    async def cluster(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        monkeypatch.setattr(kubernetes_dispatcher, "HOPELESS_SECONDS", 1.0)
        used = Cluster.of(platforms.need("kubernetes"))
        self.image = used.executor_image()
        document = json.loads(Path(used.kubeconfig).read_text())
        chosen = document["clusters"][0]["cluster"]
        server = urlsplit(str(chosen["server"]))
        assert server.hostname
        self.port = CutPort(server.hostname, server.port or 443, tmp_path / "unused")
        await self.port.open()
        chosen |= {"server": f"https://127.0.0.1:{self.port.port}", "tls-server-name": server.hostname}
        self.kubeconfig = tmp_path / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(document))
        with used.namespace() as self.namespace:
            self.pods = Pods(used, self.namespace, manifests.PodOwner.for_key(str(tmp_path), "rnr_1", "one"))
            yield
        await self.port.cut()

    @pytest.fixture
    async def gate(self) -> AsyncIterator[NetworkGate]:
        gate = NetworkGate()
        await gate.listen()
        yield gate
        await gate.close()

    def opened(self, folder: Path, key: str = "", image: str = "") -> Kubernetes:
        template = {"spec": {"hostNetwork": True}}
        settings = KubernetesSettings(
            image or self.image, namespace=self.namespace, image_pull_policy="Never", pod_template=template
        )
        api = KubernetesApi(Kubeconfig(self.kubeconfig, "", {}), self.namespace)
        dispatcher = Kubernetes(settings, api, {}, manifests.PodOwner.for_key("", "rnr_1", "one"))
        dispatcher.use_instance(key or str(folder))
        return dispatcher

    def opened_without_image(self, folder: Path) -> Kubernetes:
        return self.opened(folder, image="terracrew-test/missing:1")

    @asynccontextmanager
    async def away(self, dispatcher: Any) -> AsyncGenerator[None]:
        await self.port.cut()
        yield
        await self.port.open()

    def executor_pid(self, directory: Path) -> int:
        return self.pods.executor_pid(directory.name)

    def remains(self, directory: Path) -> bool:
        return self.pods.is_running(directory.name)

    def is_kept(self, directory: Path) -> bool:
        return bool(self.pods.names())
