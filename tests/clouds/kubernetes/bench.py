"""One namespace of a real cluster, an identity that has exactly the rights that its page shows, and deployments."""

import secrets
from typing import Any

from terracrew import ids
from terracrew.clouds.contract import Canceled
from terracrew.clouds.kubernetes import policies
from terracrew.clouds.kubernetes.cloud import KubernetesCloud
from terracrew.clouds.model import CloudIdentity, Deployment, KubernetesCluster
from tests.clouds.kubernetes import examples
from tests.machine.platforms.kubernetes import Cluster

ACCOUNT, STRANGER = "fleet", "stranger"
PAUSE_IMAGE = "docker.io/terracrew-test/pause:1"
"""An image that every node of the tests has. It runs until it is ended."""


class Steps:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.done_steps: dict[str, tuple[str, str]] = {}
        self.failed_steps: dict[str, tuple[str, str]] = {}
        self.begun: list[str] = []
        self.lines: list[str] = []
        self.is_canceled = False

    def begin(self, step: str, words: str) -> None:
        assert words
        assert step not in self.begun, f"{step} begins twice"
        self.begun.append(step)

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        assert self.begun[-1] == step
        self.done_steps[step] = (reference, words)

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        assert self.begun[-1] == step
        self.failed_steps[step] = (words, remedy)

    def line(self, text: str) -> None:
        self.lines.append(text)

    def require_wanted(self) -> None:
        if self.is_canceled:
            raise Canceled("somebody canceled the job")


class CloudBench:
    """The identity signs in with the token of a service account, which an API server accepts as it accepts one of the server."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        for name in (ACCOUNT, STRANGER):
            cluster.apply(namespace, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        self.tokens = {name: cluster.token(namespace, name, "--duration=2h") for name in (ACCOUNT, STRANGER)}
        self.user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
        cluster_settings = KubernetesCluster(
            api_url=cluster.url, ca_certificate=cluster.places.authority.read_text(), namespace=namespace
        )
        self.identity = examples.identity(cluster_settings, subject=self.user, organization_id=ids.new("org"))
        self.cloud = self.open()

    def open(self, identity: CloudIdentity | None = None) -> KubernetesCloud:
        return KubernetesCloud(identity or self.identity, self.sign)

    async def sign(self, is_probe: bool = False, /) -> str:
        return self.tokens[STRANGER if is_probe else ACCOUNT]

    def grant(self, *without: policies.Permission) -> None:
        """Apply what the page of the identity shows, if wanted without some permissions."""
        _namespace, role, binding = policies.objects(self.identity, self.user)
        role["rules"] = policies.rules(each for each in policies.PERMISSIONS if each not in without)
        self.cluster.apply(self.namespace, role, binding)

    def deployment(self, **settings: Any) -> Deployment:
        chosen: dict[str, Any] = {"image": PAUSE_IMAGE, "cpu_units": 256, "memory_mb": 512, **settings}
        return examples.deployment(ids.new("rnr"), self.identity.organization_id, **chosen)

    def names(self, *kinds: str, selector: str = "app.kubernetes.io/managed-by=terracrew") -> list[str]:
        """Return what of ours is in the namespace, such as `secret/terracrew-…`."""
        listed = ",".join(kinds or ("pods", "secrets", "serviceaccounts"))
        arguments = ("get", listed, "--namespace", self.namespace, "--selector", selector, "--output", "name")
        return self.cluster.kubectl(*arguments).split()

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)


def worker_token() -> str:
    return f"wkt_{secrets.token_hex(16)}"
