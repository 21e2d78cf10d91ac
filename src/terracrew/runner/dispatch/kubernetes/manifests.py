"""What a Job of an attempt looks like: its name, its labels, its limits and what its pod may not do.

The start, which has the token of the job, is in a Secret that names the one pod that may use it: its key has the pod's uid, and
the pod asks for the key with its own. A second pod of the same Job, whoever made it, finds no start, and ends.
"""

import base64
from typing import Any

import msgspec

from terracrew.executor.container import paths, user
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.containers.attempts import InstanceOwner, short_hash
from terracrew.runner.dispatch.kubernetes import pod_template
from terracrew.runner.dispatch.kubernetes.pod_template import EXECUTOR
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings

COMMAND = ["python3", "-P", "-m", "terracrew.executor.container"]
LABEL = "dev.terracrew"
KEY, INSTANCE, ATTEMPT = f"{LABEL}/key", f"{LABEL}/instance", f"{LABEL}/attempt"
START_FOLDER = "/run/terracrew-start"
REPORT = "/dev/termination-log"
_UID_VARIABLE = "TERRACREW_POD_UID"
_DELIVERY_SECONDS = 220
"""How long a pod that is told to end may take to deliver, after its engine had the time to save its state."""
_TTL_SECONDS = 24 * 3600
"""After this time Kubernetes itself removes an ended Job whose runner never came back."""
_TMP = "/tmp"  # noqa: S108  (an empty directory of the pod's own)


class PodOwner(InstanceOwner, frozen=True):
    dispatcher = "kubernetes"

    @property
    def names_hash(self) -> str:
        """A hash of the runner's and the instance's name, which a label cannot hold."""
        return short_hash(f"{self.runner}\0{self.instance}")

    @property
    def selector(self) -> str:
        return f"{KEY}={self.key}"

    def labels(self, attempt: str) -> dict[str, str]:
        return {KEY: self.key, INSTANCE: self.names_hash, **({ATTEMPT: attempt} if attempt else {})}

    def annotations(self) -> dict[str, str]:
        return {f"{LABEL}/runner": self.runner, f"{LABEL}/instance": self.instance}

    def name(self, attempt: str) -> str:
        """Return the name of the Job and of the Secret of an attempt, whose own name may have other characters."""
        return f"terracrew-{self.key}-{short_hash(attempt)}"


def job(settings: KubernetesSettings, owner: PodOwner, attempt: str, interrupt_seconds: tuple[float, float]) -> Any:
    """Return the Job of an attempt. It makes one pod, and never another one after that has failed or was deleted."""
    arguments = ["ephemeral", "--start", f"file:{START_FOLDER}/{start_key(f'$({_UID_VARIABLE})')}", "--report", REPORT]
    pod = _pod(settings, arguments, owner.labels(attempt), int(sum(interrupt_seconds)) + _DELIVERY_SECONDS)
    spec = pod["spec"]
    spec["volumes"].append({"name": "start", "secret": {"secretName": owner.name(attempt), "defaultMode": 0o400}})
    [container] = spec["containers"]
    container["volumeMounts"].append({"name": "start", "mountPath": START_FOLDER, "readOnly": True})
    container["env"] = [{"name": _UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]
    return _job(settings, owner, owner.name(attempt), owner.labels(attempt), pod)


def asking_for_engines(settings: KubernetesSettings, owner: PodOwner, name: str) -> Any:
    """Return a Job whose pod reports the engines of the image."""
    pod = _pod(settings, ["engines", "--report", REPORT], owner.labels(""), 1)
    return _job(settings, owner, name, owner.labels(""), pod)


def start_key(uid: str) -> str:
    return f"start-{uid}.json"


def secret(owner: PodOwner, attempt: str, job_uid: str, pod_uid: str, start: ExecutorStart) -> Any:
    """Return the Secret with the start. It cannot be changed, and disappears with the Job."""
    name = owner.name(attempt)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": owner.labels(attempt), "ownerReferences": [reference]},
        "immutable": True,
        "type": f"{LABEL}/executor-start",
        "data": {start_key(pod_uid): base64.b64encode(msgspec.json.encode(start)).decode()},
    }


def _job(settings: KubernetesSettings, owner: PodOwner, name: str, labels: dict[str, str], pod: dict[str, Any]) -> Any:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": owner.annotations()},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": _TTL_SECONDS,
            "template": pod_template.merged(settings.pod_template, pod),
        },
    }


def _pod(
    settings: KubernetesSettings, arguments: list[str], labels: dict[str, str], grace_seconds: int
) -> dict[str, Any]:
    given: dict[str, Any] = settings.pod_template.get("spec") or {}
    wanted = int(given.get("terminationGracePeriodSeconds") or 0)
    container: dict[str, Any] = {
        "name": EXECUTOR,
        "image": settings.image,
        "command": COMMAND,
        "args": arguments,
        "workingDir": "/",
        "terminationMessagePath": REPORT,
        # If there is no report, the last lines that were printed say why.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": _resources(settings),
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": sorted(user.KEPT_CAPABILITIES)},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "files", "mountPath": str(paths.ROOT)}, {"name": "tmp", "mountPath": _TMP}],
    }
    if settings.image_pull_policy:
        container["imagePullPolicy"] = settings.image_pull_policy
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(grace_seconds, wanted),
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(settings.service_account),
        "containers": [container],
        "volumes": [{"name": "files", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
    }
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return {"metadata": {"labels": labels}, "spec": spec}


def _resources(settings: KubernetesSettings) -> dict[str, dict[str, str]]:
    given = {
        "requests": {"memory": settings.memory_request, "cpu": settings.cpu_request},
        "limits": {"memory": settings.memory_limit, "cpu": settings.cpu_limit},
    }
    return {kind: {name: amount for name, amount in pairs.items() if amount} for kind, pairs in given.items()}
