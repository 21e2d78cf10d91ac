"""The names, labels and annotations of what a deployment makes in a cluster.

Names are made from the id of the runner, because its name and path can change. An object that has one of these names but not the labels of
the runner was made by somebody else, and is never used, changed or removed.
"""

import re
from collections.abc import Mapping

from terracrew.clouds.model import Deployment

PREFIX = "dev.terracrew"
RUNNER_LABEL, ORGANIZATION_LABEL = f"{PREFIX}/runner-id", f"{PREFIX}/organization-id"
JOB_LABEL = f"{PREFIX}/fleet-job"
OWN_LABELS = {"app.kubernetes.io/name": "terracrew-runner", "app.kubernetes.io/managed-by": "terracrew"}
INSTANCE_ANNOTATION, PATH_ANNOTATION = f"{PREFIX}/instance", f"{PREFIX}/runner-path"
IDENTITIES_ANNOTATION = f"{PREFIX}/cloud-identities"
"""On a namespace: the subjects of the cloud identities that may use it as the server's own workload, separated by spaces."""
CONTAINER = "runner"
TOKEN_KEY = "worker-token"  # noqa: S105  (the key of a Secret)
_POD_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def object_name(runner_id: str) -> str:
    """Return the name of the Secret and the service account of a runner."""
    return f"terracrew-{runner_id.partition('_')[2]}"


def service_account(deployment: Deployment) -> str:
    """Return the service account that the pods of a runner have."""
    return deployment.settings.job_role or object_name(deployment.runner_id)


def labels_of(deployment: Deployment, job_id: str = "") -> dict[str, str]:
    labels = {RUNNER_LABEL: deployment.runner_id, ORGANIZATION_LABEL: deployment.organization_id, **OWN_LABELS}
    return labels | ({JOB_LABEL: job_id} if job_id else {})


def are_of(deployment: Deployment, labels: Mapping[str, str]) -> bool:
    """Return whether an object with these labels was made for this runner."""
    return all(labels.get(name) == value for name, value in labels_of(deployment).items())


def runner_selector(deployment: Deployment) -> str:
    return ",".join(f"{name}={value}" for name, value in labels_of(deployment).items())


def organization_selector(organization_id: str) -> str:
    """Select what servers have made for an organization. Another server that uses the same namespace has other organizations."""
    owner = {ORGANIZATION_LABEL: organization_id, **OWN_LABELS}
    return ",".join([RUNNER_LABEL, *(f"{name}={value}" for name, value in owner.items())])


def is_pod_name(instance: str) -> bool:
    """Return whether a pod can have the name of this instance, and be reached by it."""
    return _POD_NAME.fullmatch(instance) is not None


def reference(namespace: str, pod: str) -> str:
    return f"{namespace}/{pod}"
