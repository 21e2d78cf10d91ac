"""A cloud-hosted runner as people ask for it and see it, and what the server asks of clouds."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.api.place_settings import Description
from terracrew.api.runners import RunnerView
from terracrew.api.tags import Tags
from terracrew.clouds.model import (
    Architecture,
    CloudIdentity,
    CloudKind,
    Deployment,
    DeploymentSettings,
    FoundResource,
    InstanceState,
    StartAnswer,
    StartRequest,
)
from terracrew.server.deployments.model import CloudInstance, DeploymentStatus
from terracrew.server.fleet_jobs.model import FleetJob


class NewCloudRunner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cloud-hosted runner to deploy."""

    name: str
    group: str = ""
    """Path or id of the group that it belongs to; empty: the whole organization."""
    identity: str
    """Path or id of the cloud identity with which it is deployed. It belongs to the runner's group or to one above it, and says where the
    runner runs."""
    description: Description = ""
    tags: Tags = []
    assign: bool = True
    """Whether all modules of its group may use it at once."""
    service_account: str | None = None
    """Id or path of the service account with which its instances authenticate. Required with `credential: federated`."""
    settings: DeploymentSettings = msgspec.field(default_factory=DeploymentSettings)


class DeployAgain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a deployment before it is made again; what is left out stays."""

    image: str | UnsetType = UNSET
    cpu_units: int | UnsetType = UNSET
    memory_mb: int | UnsetType = UNSET
    architecture: Architecture | UnsetType = UNSET
    is_spot: bool | UnsetType = UNSET
    subnets: list[str] | UnsetType = UNSET
    security_groups: list[str] | UnsetType = UNSET
    has_public_address: bool | UnsetType = UNSET
    job_role: str | UnsetType = UNSET
    min_instances: int | UnsetType = UNSET
    max_instances: int | UnsetType = UNSET
    capacity: int | UnsetType = UNSET
    idle_seconds: int | UnsetType = UNSET
    max_lifetime_seconds: int | UnsetType = UNSET
    wakes_ahead: bool | UnsetType = UNSET
    log_days: int | UnsetType = UNSET
    new_token: bool = False
    """Whether its instances get a new worker token. The old one ends at once, and with it the connections of the instances that run;
    their jobs deliver without them."""


class DestroyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    force: bool = False
    """Whether it is removed although it has jobs. Their attempts then count as lost."""


class DeployedRunner(msgspec.Struct, frozen=True):
    """A runner, and the fleet job that deploys, updates or removes it."""

    runner: RunnerView
    job: FleetJob


class DeploymentView(msgspec.Struct, frozen=True, kw_only=True):
    """What was deployed for a cloud-hosted runner, and what runs of it now."""

    runner_id: str
    path: str
    kind: CloudKind
    identity_id: str
    identity: str
    """The path of the cloud identity."""
    region: str
    status: DeploymentStatus
    settings: DeploymentSettings
    facts: dict[str, str]
    """What the last deployment made, by the name of its step."""
    version: str
    """The version of Terracrew that the last deployment gave its instances; empty before that."""
    image: str
    """The image that they have; empty before the first deployment, unless people chose one."""
    refusal: str
    """What the cloud said when it last refused to start an instance; empty since one has started."""
    retry_at: datetime | None
    """When it is tried again."""
    typical_start_seconds: float
    sleeps_at: datetime | None = None
    """When its last instance leaves unless a job comes; null while it has a job, sleeps, or is always wanted."""
    job: FleetJob | None
    """The last fleet job of this runner."""
    instances: list[CloudInstance]
    """Those that live and the last ones that ended, the newest first."""


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
