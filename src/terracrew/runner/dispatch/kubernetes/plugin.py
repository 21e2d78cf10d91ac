"""Opens the dispatcher `kubernetes` for a runner with these settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.kubernetes_api import access
from terracrew.kubernetes_api.access import ClusterAccess, InCluster
from terracrew.kubernetes_api.api import KubernetesApi
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch import values
from terracrew.runner.dispatch.kubernetes import manifests, settings
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings


class KubernetesPlugin:
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> Kubernetes:
        chosen = settings.parse(config.dispatcher_data)
        own = {name: value for name, value in environment.items() if not name.startswith("TERRACREW_")}
        owner = manifests.owner("", config.runner_id or config.runner_path, config.instance)
        return Kubernetes(chosen, KubernetesApi(open_access(chosen, own), chosen.namespace), own, owner)


def open_access(chosen: KubernetesSettings, environment: Mapping[str, str]) -> ClusterAccess:
    """Return the way to the API server. Raises Invalid with the name of the variable that is wrong."""
    kind = chosen.auth_type or ("in_cluster" if access.is_in_cluster() else "kubeconfig")
    try:
        if kind == "in_cluster":
            host, port = (environment.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
            return InCluster(host, port or "443")
        if kind == "eks_iam":
            from terracrew.runner.dispatch.kubernetes.eks import Eks

            return Eks(chosen.eks_cluster, chosen.region)
        return Kubeconfig(_kubeconfig_path(chosen, environment), chosen.context, environment)
    except Invalid as error:
        name = {"in_cluster": "AUTH_TYPE", "eks_iam": "AUTH_TYPE", "kubeconfig": "KUBECONFIG"}[kind]
        raise Invalid(f"{values.VARIABLE_PREFIX}{name}: {error.message}") from None


def _kubeconfig_path(chosen: KubernetesSettings, environment: Mapping[str, str]) -> Path:
    if chosen.kubeconfig:
        return Path(chosen.kubeconfig)
    listed = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    if len(listed) > 1:
        raise Invalid("the variable KUBECONFIG names several files: name one in KUBECONFIG of the dispatcher")
    return Path(listed[0]) if listed else Path(environment.get("HOME") or "/", ".kube", "config")


PLUGIN = KubernetesPlugin()
