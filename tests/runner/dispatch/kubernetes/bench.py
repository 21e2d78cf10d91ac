"""One runner instance with the dispatcher `kubernetes` in a namespace of its own, a hub, and attempts."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.attempt import directories
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.api import KubernetesApi
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes, PodHandle
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.machine.network_gate import NetworkGate
from tests.machine.platforms.kubernetes import Cluster
from tests.machine.platforms.pods import Pods

HOST_NETWORK = {"spec": {"hostNetwork": True}}
"""So that a pod reaches the hub and the gate of the test, which listen on 127.0.0.1."""


class Bench:
    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.hub, self.gate = FakeExecutorHub(), NetworkGate()
        self.settings = KubernetesSettings(
            cluster.executor_image(), namespace=namespace, image_pull_policy="Never", pod_template=HOST_NETWORK
        )
        self.pods = Pods(cluster, namespace, manifests.owner(str(folder), "rnr_1", "one"))
        self._opened: list[Kubernetes] = []

    async def __aenter__(self) -> "Bench":
        await self.hub.start()
        await self.gate.listen()
        self._processes = ExecutorProcesses(self.hub, self.folder)
        return self

    async def __aexit__(self, *_: object) -> None:
        for dispatcher in self._opened:
            await dispatcher.close()
        await self.gate.close()
        await self.hub.stop()

    def open(self, key: str = "", kubeconfig: str = "", **changes: Any) -> Kubernetes:
        chosen = msgspec.structs.replace(self.settings, **changes)
        api = KubernetesApi(Kubeconfig(Path(kubeconfig or self.cluster.kubeconfig), "", {}), self.namespace)
        dispatcher = Kubernetes(chosen, api, {}, manifests.owner("", "rnr_1", "one"))
        dispatcher.use_instance(key or str(self.folder))
        self._opened.append(dispatcher)
        return dispatcher

    async def held(self, dispatcher: Kubernetes, start: ExecutorStart) -> PodHandle:
        """Start an executor, and return when its engine stands at the gate. Fails at once if it cannot be started."""
        handle = await dispatcher.start(start)
        ending, reaching = (asyncio.create_task(each) for each in (dispatcher.watch(handle), self.gate.reached()))
        await asyncio.wait({ending, reaching}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            reaching.cancel()
            pytest.fail(f"the executor did not reach the gate: {ending.exception() or ending.result()}")
        ending.cancel()
        await reaching
        return handle

    def start(self, main: str = "", number: int = 1) -> ExecutorStart:
        main = main or f'resource "terraform_data" "held" {{\n  {self.gate.provisioner()}\n}}\n'
        archive = module(self.folder / f"source-{number}", main=main)
        start = self._processes.start_of(self._processes.spec(JobType.APPLY, archive, attempt=number))
        assert start.granted
        directory = directories.create(self.folder, start.granted, start.server_url)
        return msgspec.structs.replace(start, directory=str(directory))
