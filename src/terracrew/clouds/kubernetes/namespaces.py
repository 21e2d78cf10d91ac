"""Whether an identity may use its namespace.

An identity that signs in with a token of the server is a user of its own, and the Roles of the cluster say what it may do. All that
sign in as the server's own pod are the same user. There the namespace itself says which of them may use it, so that one organization
cannot start pods in the namespace of another one.
"""

import time

from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.kubernetes.client import ClusterClient
from terracrew.clouds.kubernetes.names import IDENTITIES_ANNOTATION
from terracrew.clouds.model import CloudIdentity
from terracrew.kubernetes_api.objects import AnyObject

_TRUST_SECONDS = 60.0
"""How long an answer of the cluster is believed."""


class Namespace:
    def __init__(self, client: ClusterClient, identity: CloudIdentity) -> None:
        self._client, self._identity = client, identity
        self._checked_until = 0.0

    async def require(self) -> None:
        """Raise CloudRefused unless the namespace exists and this identity may use it."""
        name = self._client.namespace
        found = await self._client.get(AnyObject, f"/api/v1/namespaces/{name}")
        if found is None:
            raise CloudRefused(f"there is no namespace {name}. Make it, or choose another one.")
        if self._client.cluster.way == "workload":
            given = found.metadata.annotations.get(IDENTITIES_ANNOTATION, "").split()
            if self._identity.subject not in given:
                raise CloudRefused(
                    f"the namespace {name} does not name this cloud identity. Somebody who may change the namespace adds its subject: "
                    f'kubectl annotate namespace {name} --overwrite {IDENTITIES_ANNOTATION}="{" ".join([*given, self._identity.subject])}"'
                )
        self._checked_until = time.monotonic() + _TRUST_SECONDS

    async def require_own(self) -> None:
        """Do the same for an identity that no Role of the cluster distinguishes from others."""
        if self._client.cluster.way == "workload" and time.monotonic() > self._checked_until:
            await self.require()
