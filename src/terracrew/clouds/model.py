"""What a cloud is asked for and what it answers, in the same words for every cloud. Nothing here holds a credential of a cloud."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.cloud_identities import CloudKind, Way
from terracrew.api.deployments import DeploymentSettings


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
