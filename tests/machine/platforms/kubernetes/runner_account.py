"""An account with the rights that the chart gives to a runner, and a kubeconfig for it."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.machine.platforms.kubernetes.cluster import Cluster

_ROLE = Path(__file__).parents[4] / "deploy" / "helm" / "terracrew-runner" / "templates" / "rbac.yaml"
_NAME = "runner"


def rules() -> list[dict[str, Any]]:
    """Return the rules of the chart's Role, which have nothing that Helm would replace."""
    text = _ROLE.read_text().partition("\nrules:\n")[2].partition("\n---\n")[0]
    return yaml.safe_load(text)


def kubeconfig(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """Make the account in this namespace, and return a kubeconfig that has its token."""
    group = "rbac.authorization.k8s.io"
    role = {"kind": "Role", "apiGroup": group, "name": _NAME}
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}
    metadata = {"name": _NAME}
    cluster.apply(
        namespace,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules()},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    )
    document = json.loads(Path(cluster.kubeconfig).read_text())
    document["users"][0]["user"] = {"token": cluster.token(namespace, _NAME, "--duration=2h")}
    path = folder / "runner.kubeconfig"
    path.write_text(json.dumps(document))
    return path
