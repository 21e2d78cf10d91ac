"""What the objects of a cloud-hosted runner look like: its service account, the Secret with its worker token, and its pods."""

import base64
from collections.abc import Mapping
from typing import Any

from terracrew.clouds import runner_environment
from terracrew.clouds.kubernetes import names
from terracrew.clouds.kubernetes.names import CONTAINER, TOKEN_KEY
from terracrew.clouds.model import Deployment, StartRequest

GRACE_SECONDS = 120
"""How long a pod that is told to end may take. A runner interrupts its engines in time to save their states."""
_TOKEN_SECONDS = 3600
_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "fsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_HOME = "/home/terracrew"
_TMP = "/tmp"  # noqa: S108  (an empty directory of the pod's own)
_TOKEN_FOLDER = "/var/run/secrets/terracrew"  # noqa: S105  (a folder)
_HELPER = "/opt/credhelpers/kubernetes"
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_UNDISTURBED = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""Ask what shrinks clusters not to move a pod to another node. A runner leaves by itself when it is idle."""


def service_account(deployment: Deployment, job_id: str) -> dict[str, Any]:
    """Return the service account of a runner for which none is named. It has no rights, and its pods get no token of it."""
    metadata = _metadata(deployment, names.object_name(deployment.runner_id), job_id)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def secret(deployment: Deployment, worker_token: str, job_id: str) -> dict[str, Any]:
    metadata = _metadata(deployment, names.object_name(deployment.runner_id), job_id)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", **token_data(worker_token)}


def token_data(worker_token: str) -> dict[str, Any]:
    return {"data": {TOKEN_KEY: base64.b64encode(worker_token.encode()).decode()}}


def pod(deployment: Deployment, wanted: StartRequest, *, account: str = "") -> dict[str, Any]:
    """Return the pod of an instance. `account` replaces its service account, for a question before that exists."""
    chosen, instance = deployment.settings, wanted.instance
    metadata = _metadata(deployment, instance, "")
    metadata["annotations"] |= {names.INSTANCE_ANNOTATION: instance, **_UNDISTURBED}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "serviceAccountName": account or names.service_account(deployment),
            # Jobs may use a service account that a person has chosen for them.
            "automountServiceAccountToken": bool(chosen.job_role),
            "enableServiceLinks": False,
            "nodeSelector": {
                "kubernetes.io/arch": _ARCHITECTURES[chosen.architecture],
                "kubernetes.io/os": "linux",
            },
            "securityContext": _POD_SECURITY,
            "containers": [_container(deployment, wanted)],
            "volumes": [
                {"name": "work", "emptyDir": {}},
                {"name": "tmp", "emptyDir": {}},
                *([_token_volume(deployment)] if chosen.credential == "federated" else []),
            ],
        },
    }


def _container(deployment: Deployment, wanted: StartRequest) -> dict[str, Any]:
    chosen = deployment.settings
    size = {"cpu": f"{chosen.cpu_units * 1000 // 1024}m", "memory": f"{chosen.memory_mb}Mi"}
    mounts: list[dict[str, Any]] = [
        {"name": "work", "mountPath": f"{_HOME}/.terracrew"},
        {"name": "tmp", "mountPath": _TMP},
    ]
    if chosen.credential == "federated":
        mounts.append({"name": "terracrew-token", "mountPath": _TOKEN_FOLDER, "readOnly": True})
    return {
        "name": CONTAINER,
        "image": chosen.image,
        "args": ["runner", "start"],
        "env": _environment(deployment, wanted),
        "resources": {"requests": size, "limits": size},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # The last lines of a process that failed say why, even after its log is gone.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _environment(deployment: Deployment, wanted: StartRequest) -> list[dict[str, Any]]:
    plain: Mapping[str, str] = {
        "HOME": _HOME,
        "TERRACREW_CACHE": f"{_HOME}/.terracrew/cache",
        **runner_environment.variables(deployment, helper=_HELPER),
        **runner_environment.instance_variables(wanted),
    }
    found: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in plain.items()]
    if deployment.settings.credential == "secret":
        source = {"secretKeyRef": {"name": names.object_name(deployment.runner_id), "key": TOKEN_KEY}}
        found.append({"name": runner_environment.WORKER_TOKEN_VARIABLE, "valueFrom": source})
    return found


def _token_volume(deployment: Deployment) -> dict[str, Any]:
    token = {"path": "token", "audience": deployment.server_url, "expirationSeconds": _TOKEN_SECONDS}
    return {"name": "terracrew-token", "projected": {"sources": [{"serviceAccountToken": token}]}}


def _metadata(deployment: Deployment, name: str, job_id: str) -> dict[str, Any]:
    return {
        "name": name,
        "labels": names.labels_of(deployment, job_id),
        "annotations": {names.PATH_ANNOTATION: deployment.runner_path},
    }


def settings_without_meaning(deployment: Deployment) -> list[str]:
    """Return what was chosen for this runner and has no meaning in a cluster."""
    chosen = deployment.settings
    values = {
        "is_spot": chosen.is_spot,
        "subnets": chosen.subnets,
        "security_groups": chosen.security_groups,
        "cluster": chosen.cluster,
    }
    return [name for name, value in values.items() if value]
