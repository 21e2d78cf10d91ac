"""What a cluster must allow an identity to do, and the objects to paste there. Nothing here asks a cluster."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from terracrew.clouds.kubernetes.names import IDENTITIES_ANNOTATION
from terracrew.clouds.model import CloudIdentity, KubernetesCluster

USER_PREFIX = "terracrew:"
"""Is put before the subject of a token, so that no identity has the name of a user who exists already."""
_ROLE_NAME = "terracrew-fleet"
_RBAC = "rbac.authorization.k8s.io"


class Permission(NamedTuple):
    resource: str
    """Such as `pods`, or `pods/log` for a part of them."""
    verb: str
    purpose: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


PERMISSIONS = (
    Permission("namespaces", "get", "see that the namespace exists, and which identities may use it"),
    Permission("pods", "create", "start an instance"),
    Permission("pods", "delete", "remove an instance that has ended, or that nobody owns"),
    Permission("pods", "get", "see whether an instance of this name exists"),
    Permission("pods", "list", "see what became of instances"),
    Permission("pods/log", "get", "show the last lines of an instance that failed"),
    Permission("events", "list", "say why an instance does not start"),
    Permission("secrets", "create", "store the worker token"),
    Permission("secrets", "delete", "remove the worker token"),
    Permission("secrets", "get", "see whose Secret has the name"),
    Permission("secrets", "list", "find what deployments have left"),
    Permission("secrets", "patch", "replace the worker token"),
    Permission("serviceaccounts", "create", "make the service account of the pods"),
    Permission("serviceaccounts", "delete", "remove the service account of the pods"),
    Permission("serviceaccounts", "get", "see whose service account has the name"),
    Permission("serviceaccounts", "list", "find what deployments have left"),
    Permission("resourcequotas", "list", "say before a deployment whether it fits"),
)
"""All that a deployment, its instances and their removal need, inside one namespace."""


def rules(permissions: Iterable[Permission] = PERMISSIONS) -> list[dict[str, Any]]:
    """Return these permissions as the rules of a Role."""
    verbs: dict[str, list[str]] = {}
    for each in permissions:
        verbs.setdefault(each.resource, []).append(each.verb)
    return [{"apiGroups": [""], "resources": [name], "verbs": given} for name, given in verbs.items()]


def username(identity: CloudIdentity) -> str:
    """Return the user that the API server takes an identity for, if it is set up as `authentication` shows."""
    return f"{USER_PREFIX}{identity.subject}"


def objects(identity: CloudIdentity, user: str = "") -> list[dict[str, Any]]:
    """Return the Namespace, the Role and the RoleBinding for an identity.

    `user` is who the API server says that the identity is, if that is known. An identity that signs in as the server's own workload
    is bound to that service account, which has to be filled in if it is not known.
    """
    cluster = identity.cloud
    assert isinstance(cluster, KubernetesCluster)
    namespace: dict[str, Any] = {"name": cluster.namespace}
    if cluster.way == "workload":
        namespace["annotations"] = {IDENTITIES_ANNOTATION: identity.subject}
    metadata = {"name": _ROLE_NAME, "namespace": cluster.namespace}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules()},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _ROLE_NAME},
            "subjects": [_subject(identity, cluster, user)],
        },
    ]


def _subject(identity: CloudIdentity, cluster: KubernetesCluster, user: str) -> dict[str, str]:
    parts = user.split(":")
    if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        return {"kind": "ServiceAccount", "namespace": parts[2], "name": parts[3]}
    if cluster.way == "workload":
        return {"kind": "ServiceAccount", "namespace": "NAMESPACE-OF-THE-SERVER", "name": "ACCOUNT-OF-THE-SERVER"}
    return {"apiGroup": _RBAC, "kind": "User", "name": user or username(identity)}


def authentication(identity: CloudIdentity) -> dict[str, Any]:
    """Return the configuration with which an API server accepts the tokens of the server, for `--authentication-config`.

    All identities of a server and an audience share one entry. Each is a user of its own, by its subject.
    """
    return {
        "apiVersion": "apiserver.config.k8s.io/v1beta1",
        "kind": "AuthenticationConfiguration",
        "jwt": [
            {
                "issuer": {"url": identity.issuer, "audiences": [identity.audience]},
                "claimMappings": {"username": {"claim": "sub", "prefix": USER_PREFIX}},
            }
        ],
    }


def flags(identity: CloudIdentity) -> list[str]:
    """Return the options of an API server that do the same as `authentication`."""
    return [
        f"--oidc-issuer-url={identity.issuer}",
        f"--oidc-client-id={identity.audience}",
        "--oidc-username-claim=sub",
        f"--oidc-username-prefix={USER_PREFIX}",
    ]


def to_yaml(documents: Iterable[dict[str, Any]]) -> str:
    """Return objects as `kubectl apply --filename -` reads them."""
    import yaml  # only a page and a failed test show them

    return yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)
