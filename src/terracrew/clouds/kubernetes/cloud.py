"""A cluster of Kubernetes behind the contract of a cloud."""

from collections.abc import Sequence

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.contract import CloudRefused, CloudSilent, Reporter, SignToken
from terracrew.clouds.kubernetes import names, states
from terracrew.clouds.kubernetes.checking import Checking
from terracrew.clouds.kubernetes.client import ClusterClient
from terracrew.clouds.kubernetes.deploying import Deploying
from terracrew.clouds.kubernetes.instances import Instances
from terracrew.clouds.kubernetes.namespaces import Namespace
from terracrew.clouds.model import (
    CloudIdentity,
    Deployment,
    InstanceRefused,
    InstanceState,
    KubernetesCluster,
    StartAnswer,
    StartRequest,
)
from terracrew.kubernetes_api.objects import ObjectList, ObjectMetadata, PodList


class KubernetesCloud:
    def __init__(self, identity: CloudIdentity, sign: SignToken) -> None:
        """Nothing is asked before the first use."""
        assert isinstance(identity.cloud, KubernetesCluster)
        self._identity = identity
        self._client = ClusterClient(identity.cloud, sign)
        self._namespace = Namespace(self._client, identity)
        self._checking = Checking(self._client, self._namespace, identity)
        self._deploying = Deploying(self._client, self._namespace)
        self._instances = Instances(self._client)

    async def check(self, reporter: Reporter, deployment: Deployment | None = None) -> bool:
        return await self._checking.check(reporter, deployment)

    async def deploy(
        self, deployment: Deployment, worker_token: str, job_id: str, reporter: Reporter
    ) -> dict[str, str]:
        return await self._deploying.deploy(deployment, worker_token, job_id, reporter)

    async def start(self, deployment: Deployment, wanted: Sequence[StartRequest]) -> list[StartAnswer]:
        try:
            await self._namespace.require_own()
        except CloudSilent as silence:
            return [InstanceRefused(each.instance, "silent", silence.message) for each in wanted]
        except CloudRefused as refusal:
            return [InstanceRefused(each.instance, "not_permitted", refusal.message) for each in wanted]
        return await self._instances.start(deployment, wanted)

    async def watch(self, deployment: Deployment, references: Sequence[str]) -> list[InstanceState]:
        await self._namespace.require_own()
        return await self._instances.watch(deployment, references)

    async def stop(self, deployment: Deployment, reference: str, reason: str) -> None:
        await self._namespace.require_own()
        await self._instances.stop(deployment, reference, reason)

    async def destroy(self, deployment: Deployment, job_id: str, reporter: Reporter) -> None:
        await self._namespace.require_own()
        reporter.line(f"{job_id} removes what was made in the namespace {self._client.namespace}")
        await self._deploying.destroy(deployment, reporter)

    async def found(self) -> list[FoundResource]:
        await self._namespace.require_own()
        selector = names.organization_selector(self._identity.organization_id)
        pods = (await self._client.select(PodList, "pods", selector)).items
        found = [
            self._resource("pod", pod.metadata, states.state_of(pod, "").words or "an instance that runs")
            for pod in pods
        ]
        for path, kind, why in (
            ("secrets", "secret", "has the worker token of the runner"),
            ("serviceaccounts", "service account", "what the pods of the runner run as"),
        ):
            listed = (await self._client.select(ObjectList, path, selector)).items
            found += [self._resource(kind, each.metadata, why) for each in listed]
        return found

    async def close(self) -> None:
        await self._client.close()

    def _resource(self, kind: str, metadata: ObjectMetadata, why: str) -> FoundResource:
        return FoundResource(
            kind=kind,
            name=metadata.name,
            reference=names.reference(self._client.namespace, metadata.name),
            runner_id=metadata.labels.get(names.RUNNER_LABEL, ""),
            job_id=metadata.labels.get(names.JOB_LABEL, ""),
            made_at=states.parse_time(metadata.creation_timestamp),
            why=why,
        )
