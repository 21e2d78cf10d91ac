"""Cloud identities: the ways into cloud accounts in which runners are started, and what of ours is in these accounts."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.access import RunnerReference
from terracrew.api.fields import UNCHANGED, Field
from terracrew.api.fleet_jobs import FleetJob

CloudKind = Literal["aws", "kubernetes"]
Way = Literal["web_identity", "workload"]
"""How the server signs in: with a token that it signs for this purpose, or as the machine or pod that it runs on."""


class IdentitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a cloud identity."""

    description: Annotated[str, Field(metavar="TEXT")] = ""
    """What it is for."""
    way: Annotated[Way, Field(option="--way")] = "web_identity"
    """How the server signs in: with a token that it signs, or as the machine or pod that it runs on."""
    role_arn: Annotated[str, Field(metavar="ARN")] = ""
    """AWS: the role that the server assumes."""
    region: Annotated[str, Field(metavar="NAME")] = ""
    """AWS: the region in which runners are started, such as eu-central-1."""
    api_url: Annotated[str, Field(metavar="URL")] = ""
    """Kubernetes: the https address of the cluster's API; empty for the cluster that the server runs in."""
    ca_certificate: Annotated[str, Field(option=None)] = ""
    """Kubernetes: the certificates that the cluster's API is checked with, as PEM; empty for those of the system."""
    namespace: Annotated[str, Field(metavar="NAME")] = ""
    """Kubernetes: the namespace in which runners are started; `terracrew` by default."""
    audience: Annotated[str, Field(metavar="TEXT")] = ""
    """The `aud` of the tokens that the server signs; `sts.amazonaws.com` for AWS and `kubernetes` for Kubernetes by default."""


class NewIdentity(IdentitySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cloud identity to make. The external id and the subject are made by the server, and cannot be chosen."""

    name: str
    kind: CloudKind = "aws"
    group: str = ""
    """The path of the group whose runners may use it, and those of the groups below; empty for the whole organization."""


@fields.change
class IdentityChange(IdentitySettings, frozen=True, kw_only=True):
    """What to change; what is left out stays."""

    name: Annotated[str, Field(metavar="NAME")] = UNCHANGED
    """A new name. Subject and external id stay."""


class IdentityView(IdentitySettings, frozen=True, kw_only=True):
    """A cloud identity, with what uses it."""

    id: str
    organization_id: str
    path: str
    """The path of its group and its name."""
    group: str
    name: str
    kind: CloudKind
    location: str
    """Where runners are started, in words: the account and region, or the namespace and cluster."""
    account: str = ""
    """The number of the account of AWS."""
    external_id: str
    """What the server says when it assumes a role of AWS as its own workload. It is no secret: only the role compares it."""
    issuer: str
    subject: str
    runners: list[RunnerReference]
    """The runners that are deployed with it."""
    created_by: str
    created_at: datetime
    last_test: FleetJob | None = None


class PolicyDocument(msgspec.Struct, frozen=True):
    """A text to paste into the account."""

    name: Literal["trust", "permissions", "opentofu", "objects", "authentication", "flags"]
    title: str
    about: str
    language: Literal["json", "hcl", "yaml", "text"]
    text: str


class IdentityPolicies(msgspec.Struct, frozen=True):
    """What has to be in the account, so that the identity may do what deployments need and nothing else."""

    subject: str
    """The `sub` in these texts. It belongs to this identity alone."""
    external_id: str
    documents: list[PolicyDocument]


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


ResourceOwner = Literal["runner", "nobody", "elsewhere"]
"""A runner that is deployed with the identity; nobody, because its runner was removed; or nobody whom this organization knows."""


class ReportedResource(FoundResource, frozen=True, kw_only=True):
    """A thing of ours in an account, and who owns it."""

    owner: ResourceOwner
    runner: str = ""
    """The path of the runner that it was made for; its last name, if it was removed."""
    owner_words: str = ""
    """Why nobody owns it."""
    job_number: int | None = None
    """The number of the fleet job that made it."""


class IdentityReport(msgspec.Struct, frozen=True):
    """What of ours is in the account of an identity. What has lost its owner comes first."""

    identity: str
    looked_at: datetime | None
    """When the cloud was asked; null if nobody has looked yet."""
    resources: list[ReportedResource]
    dollars_a_month: float
    """The sum of what is known, by list prices."""
    unpriced: int
    """How many of them have no known price."""
