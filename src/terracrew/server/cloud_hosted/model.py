"""What the server asks of clouds."""

from collections.abc import Sequence
from typing import Protocol

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.model import CloudIdentity, Deployment, InstanceState, StartAnswer, StartRequest


class CloudCalls(Protocol):
    """Each call raises Unavailable if the fleet process has no answer, and may have been made nevertheless."""

    async def start(
        self, identity: CloudIdentity, deployment: Deployment, wanted: Sequence[StartRequest]
    ) -> list[StartAnswer]:
        """Start instances by name. One that was started before is not started again."""
        ...

    async def watch(
        self, identity: CloudIdentity, deployment: Deployment, references: Sequence[str]
    ) -> list[InstanceState]:
        """Return the instances that exist, and what became of those with these references."""
        ...

    async def stop(self, identity: CloudIdentity, deployment: Deployment, reference: str, reason: str) -> None:
        """Stop an instance that nobody owns."""
        ...

    async def found(self, identity: CloudIdentity) -> list[FoundResource]:
        """Return everything of ours in the account."""
        ...
