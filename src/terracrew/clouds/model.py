"""What a cloud is asked for and what it answers, in the same words for every cloud. Nothing here holds a credential of a cloud."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

CloudKind = Literal["aws", "kubernetes"]
Way = Literal["workload", "web_identity"]
"""How the fleet runner signs in: as the machine or pod that it runs on, or with a token that the server signs for this purpose."""
Architecture = Literal["x86_64", "arm64"]
Instances = Annotated[int, msgspec.Meta(ge=0, le=1000)]


class AwsAccount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="aws"):
    role_arn: str
    external_id: str = ""
    """Made by the server, another one for each identity. Only a role that expects it can be assumed as the server's own workload."""
    region: str
    way: Way = "web_identity"


class KubernetesCluster(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="kubernetes"
):
    api_url: str
    """Empty with `workload`: the cluster that the server itself runs in."""
    ca_certificate: str = ""
    """PEM; empty: the certificates of the system."""
    namespace: str = "default"
    way: Way = "web_identity"


CloudSettings = AwsAccount | KubernetesCluster


class CloudIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """One way into one cloud account, as the fleet runner gets it."""

    id: str
    organization_id: str
    name: str
    subject: str
    """The `sub` of the tokens that the server signs for it. No other identity has it."""
    audience: str
    """The `aud` of these tokens."""
    issuer: str
    """The `iss` of these tokens."""
    cloud: CloudSettings

    @property
    def kind(self) -> CloudKind:
        return "aws" if isinstance(self.cloud, AwsAccount) else "kubernetes"


class DeploymentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people choose about a cloud-hosted runner."""

    image: str = ""
    """Empty: the image of the server's own version, from the server's settings."""
    cpu_units: Annotated[int, msgspec.Meta(ge=256, le=16384)] = 1024
    """1,024 are one vCPU."""
    memory_mb: Annotated[int, msgspec.Meta(ge=512, le=122_880)] = 2048
    architecture: Architecture = "x86_64"
    is_spot: bool = False
    """Whether the cloud may take an instance back after two minutes' notice, for a lower price."""
    subnets: list[str] = []
    """Empty: those of the default network."""
    security_groups: list[str] = []
    """Further ones beside the one that the deployment makes."""
    has_public_address: bool = True
    """Whether instances get a public address. Without one, their subnets need another way to the server and to the image."""
    cluster: str = ""
    """Empty: the deployment makes one."""
    job_role: str = ""
    """The role, or the service account of a cluster, that jobs have. Empty: the deployment makes a role that may do nothing."""
    credential: Literal["secret", "federated"] = "secret"
    """How an instance proves who it is: with a token in the cloud's secret store, or as the role that it has there."""
    min_instances: Instances = 0
    max_instances: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 4
    capacity: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    """How many jobs an instance runs at once."""
    idle_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 300
    """The last instance without a job stays for this long. Further ones leave after half a minute without a job."""
    max_lifetime_seconds: Annotated[int, msgspec.Meta(ge=3600, le=1_209_600)] = 86_400
    """An instance that is this old takes no further jobs and leaves after its last one."""
    wakes_ahead: bool = False
    """Whether an instance is started when somebody opens a plan that waits for approval."""
    log_days: Annotated[int, msgspec.Meta(ge=1, le=3653)] = 30


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A cloud-hosted runner, as the cloud is asked to run it."""

    runner_id: str
    runner_path: str
    organization_id: str
    server_url: str
    """Where its instances connect to."""
    region: str
    version: str
    """The version of Terracrew that the image has."""
    account_path: str = ""
    """The service account of the runner, if its instances are federated."""
    settings: DeploymentSettings
    facts: dict[str, str] = {}
    """What the last deployment made, by the name of its step. A deployment that finds everything in place returns the same."""


class StartRequest(msgspec.Struct, frozen=True):
    """One instance to start. However often it is asked for, the cloud starts one."""

    instance: str
    """The name of the instance: at most 64 letters, digits and hyphens. It is the token of the request, too."""
    is_on_trial: bool = False
    """Whether its process takes no job before a no-op job has passed. Each repetition of the request says the same."""


class InstanceStarted(msgspec.Struct, frozen=True, tag="started"):
    instance: str
    reference: str
    """The cloud's own name for it, such as the ARN of a task."""


class InstanceRefused(msgspec.Struct, frozen=True, tag="refused"):
    instance: str
    code: Literal[
        "quota", "capacity", "addresses", "throttled", "not_permitted", "identity", "missing", "silent", "other"
    ]
    words: str
    """What the cloud said, in its own words, and what a person can do about it."""


StartAnswer = InstanceStarted | InstanceRefused


class InstanceState(msgspec.Struct, frozen=True, kw_only=True):
    """What the cloud says about an instance that it was asked to start, or that has one of our marks."""

    instance: str
    """Its name; empty if nothing says it."""
    reference: str
    phase: Literal["starting", "running", "ended"]
    words: str = ""
    """What it is doing, such as `pulling the image`, or why it ended."""
    started_at: datetime | None = None
    exit_code: int | None = None
    last_lines: list[str] = []
    """The last lines that an instance printed which ended before it said hello."""


class FoundResource(msgspec.Struct, frozen=True, kw_only=True):
    """A thing of ours in an account."""

    kind: str
    """Such as `role`, `log group` or `task`."""
    name: str
    reference: str
    runner_id: str
    """The runner that it was made for, as its marks say. The server knows whether there is such a runner."""
    job_id: str = ""
    """The fleet job that made it, as its marks say."""
    made_at: datetime | None = None
    why: str = ""
    dollars_a_month: float | None = None
    """What it costs, by list prices; None if that is not known."""
