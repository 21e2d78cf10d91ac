"""One runner instance with the dispatcher `kubernetes` in a namespace of its own, a hub, and attempts."""

from pathlib import Path
from typing import Any

import msgspec

from terracrew.kubernetes_api.api import KubernetesApi
from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from tests.machine.platforms.kubernetes import Cluster, runner_account
from tests.machine.platforms.pods import Pods
from tests.runner.dispatch.held_attempts import HeldAttempts

HOST_NETWORK = {"spec": {"hostNetwork": True}}
"""So that a pod reaches the hub and the gate of the test, which listen on 127.0.0.1."""


class Bench(HeldAttempts):
    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        super().__init__(folder)
        self.cluster, self.namespace = cluster, namespace
        self.settings = KubernetesSettings(
            cluster.executor_image(), namespace=namespace, image_pull_policy="Never", pod_template=HOST_NETWORK
        )
        self.pods = Pods(cluster, namespace, manifests.PodOwner.for_key(str(folder), "rnr_1", "one"))
        self._opened: list[Kubernetes] = []
        self.kubeconfig = runner_account.kubeconfig(cluster, namespace, folder)

    async def __aexit__(self, *_: object) -> None:
        for dispatcher in self._opened:
            await dispatcher.close()
        await super().__aexit__()

    def open(self, key: str = "", **changes: Any) -> Kubernetes:
        """Open a dispatcher that has no more rights than the chart gives to a runner."""
        chosen = msgspec.structs.replace(self.settings, **changes)
        api = KubernetesApi(Kubeconfig(self.kubeconfig, "", {}), self.namespace)
        dispatcher = Kubernetes(chosen, api, {}, manifests.PodOwner.for_key("", "rnr_1", "one"))
        dispatcher.use_instance(key or str(self.folder))
        self._opened.append(dispatcher)
        return dispatcher
