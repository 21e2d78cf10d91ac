"""What runs in clouds for cloud-hosted runners: what people choose about it, and the instances that a cloud was asked for."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.cloud_identities import CloudKind
from terracrew.api.fields import Field
from terracrew.api.fleet_jobs import FleetJob
from terracrew.api.place_settings import Description
from terracrew.api.runners import RunnerView
from terracrew.api.tags import Tags
from terracrew.errors import Conflict
from terracrew.protocol.field import VCPU_UNIT_COUNT

Architecture = Literal["x86_64", "arm64"]
Instances = Annotated[int, msgspec.Meta(ge=0, le=1000)]


class DeploymentOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people choose about a cloud-hosted runner, and may change later."""

    image: Annotated[str, Field(metavar="NAME")] = ""
    """The image of the runner; empty: that of the server's own version, from the server's settings."""
    cpu_units: Annotated[int, msgspec.Meta(ge=256, le=16384), Field(option="--cpu", metavar="VCPU", unit="vcpus")] = (
        VCPU_UNIT_COUNT
    )
    """The processors of an instance: 1,024 units are one vCPU."""
    memory_mb: Annotated[
        int, msgspec.Meta(ge=512, le=122_880), Field(option="--memory", metavar="SIZE", unit="megabytes")
    ] = 2048
    """The memory of an instance."""
    architecture: Annotated[Architecture, Field(option="--architecture")] = "x86_64"
    """The processor of an instance."""
    is_spot: Annotated[bool, Field(option="--spot")] = False
    """Whether the cloud may take an instance back after two minutes' notice, for a lower price."""
    subnets: Annotated[list[str], Field(option="--subnet", metavar="ID")] = []
    """A subnet for instances; without any: those of the default network."""
    security_groups: Annotated[list[str], Field(option="--security-group", metavar="ID")] = []
    """A further security group beside the one that the deployment makes."""
    has_public_address: Annotated[bool, Field(option="--public-address")] = True
    """Whether instances get a public address. Without one, their subnets need another way to the server and to the image."""
    job_role: Annotated[str, Field(metavar="ROLE")] = ""
    """The role (ARN), or the service account of a cluster, that jobs have. Empty: the deployment makes a role that may do nothing."""
    min_instances: Annotated[Instances, Field(metavar="N")] = 0
    """How many instances never sleep."""
    max_instances: Annotated[int, msgspec.Meta(ge=1, le=1000), Field(metavar="N")] = 4
    """How many instances there are at most."""
    capacity: Annotated[int, msgspec.Meta(ge=1, le=100), Field(metavar="N")] = 1
    """How many jobs an instance runs at once."""
    idle_seconds: Annotated[
        int, msgspec.Meta(ge=10, le=86_400), Field(option="--idle", metavar="TIME", unit="seconds")
    ] = 300
    """The last instance without a job stays for this long. Further ones leave after half a minute without a job."""
    max_lifetime_seconds: Annotated[
        int,
        msgspec.Meta(ge=3600, le=1_209_600),
        Field(label="Max lifetime", option="--max-lifetime", metavar="TIME", unit="seconds"),
    ] = 86_400
    """An instance that is this old takes no further jobs and leaves after its last one."""
    wakes_ahead: Annotated[bool, Field(option="--wake-ahead")] = False
    """Whether an instance is started when somebody opens a plan that waits for approval."""
    log_days: Annotated[int, msgspec.Meta(ge=1, le=3653), Field(metavar="N")] = 30
    """For how many days the log of an instance is kept."""


class DeploymentSettings(DeploymentOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people choose about a cloud-hosted runner."""

    cluster: Annotated[str, Field(metavar="NAME")] = ""
    """An existing cluster; empty: the deployment makes one."""
    credential: Annotated[Literal["secret", "federated"], Field(option="--credential")] = "secret"
    """How an instance proves who it is: with a token in the cloud's secret store, or as the role that it has there."""


class NewCloudRunner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cloud-hosted runner to deploy."""

    name: str
    group: str = ""
    """Path or id of the group that it belongs to; empty: the whole organization."""
    identity: str
    """Path or id of the cloud identity with which it is deployed. It belongs to the runner's group or to one above it, and says where the
    runner runs."""
    description: Annotated[Description, Field(is_long=True)] = ""
    """What it is for."""
    tags: Annotated[Tags, Field(option="--tag", metavar="TAG")] = []
    """It gets the jobs of a module only if it has all of the module's tags."""
    assign: bool = True
    """Whether all modules of its group may use it at once."""
    service_account: Annotated[str | None, Field(metavar="ACCOUNT")] = None
    """Id or path of the service account with which its instances authenticate. Required with `credential: federated`."""
    settings: Annotated[DeploymentSettings, Field(label="Settings")] = msgspec.field(default_factory=DeploymentSettings)


@fields.change
class DeployAgain(DeploymentOptions, frozen=True, kw_only=True):
    """What to change of a deployment before it is made again; what is left out stays."""

    new_token: Annotated[bool, Field(option=None)] = False
    """Whether its instances get a new worker token. The old one ends at once, and with it the connections of the instances that run;
    their jobs deliver without them."""


class DestroyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    force: bool = False
    """Whether it is removed although it has jobs. Their attempts then count as lost."""


class DeployedRunner(msgspec.Struct, frozen=True):
    """A runner, and the fleet job that deploys, updates or removes it."""

    runner: RunnerView
    job: FleetJob


DeploymentStatus = Literal["new", "deployed", "failed", "removing"]
CloudInstanceStatus = Literal["wanted", "starting", "running", "leaving", "ended"]
"""wanted: the cloud was not asked for it yet, or has not answered. starting: the cloud has accepted it. running: its process has said
hello. leaving: the server has agreed that its process ends."""
LIVE: tuple[CloudInstanceStatus, ...] = ("wanted", "starting", "running", "leaving")
TRANSITIONS: dict[CloudInstanceStatus, frozenset[CloudInstanceStatus]] = {
    "wanted": frozenset({"starting", "running", "ended"}),
    "starting": frozenset({"running", "ended"}),
    "running": frozenset({"leaving", "ended"}),
    "leaving": frozenset({"running", "ended"}),
    "ended": frozenset(),
}
"""An instance that said hello before the cloud's answer was stored is running. One that leaves and says hello again has not had the
answer of the server: it stays."""


class CloudInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that the cloud was asked to start. Its process says hello with the same name."""

    id: str
    runner_id: str
    name: str
    epoch: int
    """The number of the decision that it belongs to."""
    revision: int = 0
    """The number of the deployment with which it was started."""
    status: CloudInstanceStatus = "wanted"
    reference: str = ""
    """The cloud's own name for it."""
    words: str = ""
    """What the cloud says that it is doing."""
    wanted_at: datetime
    asked_at: datetime | None = None
    """When the cloud was last asked to start it."""
    started_at: datetime | None = None
    """When the cloud accepted it."""
    hello_at: datetime | None = None
    watched_at: datetime | None = None
    """When the cloud was last asked about it."""
    ended_at: datetime | None = None
    end_reason: str = ""

    @property
    def is_live(self) -> bool:
        return self.status != "ended"

    def to(self, status: CloudInstanceStatus, now: datetime, reason: str = "") -> "CloudInstance":
        """Return the instance in another status. Raises Conflict if it cannot get there."""
        if status not in TRANSITIONS[self.status]:
            raise Conflict(f"the cloud instance {self.name} is {self.status} and cannot become {status}")
        changed = msgspec.structs.replace(self, status=status)
        if status == "starting":
            return msgspec.structs.replace(changed, started_at=now)
        if status == "running":
            return msgspec.structs.replace(changed, hello_at=self.hello_at or now, words="")
        if status == "ended":
            return msgspec.structs.replace(changed, ended_at=now, end_reason=reason)
        return changed


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
