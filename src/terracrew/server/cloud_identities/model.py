"""A cloud identity as it is stored, and what people may ask to have made or changed."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.clouds.model import AwsAccount, CloudIdentity, CloudKind, CloudSettings, Way

DEFAULT_AUDIENCES: dict[CloudKind, str] = {"aws": "sts.amazonaws.com", "kubernetes": "kubernetes"}
DEFAULT_NAMESPACE = "terracrew"


class IdentityRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One way into one account. It has no secret: `external_id` and `subject` are compared by the account's own policies."""

    id: str
    organization_id: str
    group_id: str
    group: str
    """The path of the group whose runners may use it, and those of the groups below; empty for the whole organization."""
    name: str
    description: str
    kind: CloudKind
    settings: CloudSettings
    external_id: str
    """What the server says when it assumes the role as its own workload. Made by the server, another one for each identity."""
    subject: str
    """The `sub` of the tokens that the server signs for it. It stays when the identity is renamed, and is never used again."""
    audience: str
    """The `aud` of these tokens."""
    created_by: str
    created_at: datetime

    @property
    def path(self) -> str:
        return f"{self.group}/{self.name}" if self.group else self.name


class NewIdentity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cloud identity to make. The external id and the subject are made by the server, and cannot be chosen."""

    name: str
    kind: Literal["aws", "kubernetes"] = "aws"
    group: str = ""
    """The path of the group whose runners may use it, and those of the groups below; empty for the whole organization."""
    description: str = ""
    way: Way = "web_identity"
    """How the server signs in: with a token that it signs, or as the machine or pod that it runs on."""
    role_arn: str = ""
    """The role to assume. AWS only."""
    region: str = ""
    """The region in which runners are started. AWS only."""
    api_url: str = ""
    """The address of the cluster's API; empty for the cluster that the server runs in. Kubernetes only."""
    ca_certificate: str = ""
    """The certificates that the cluster's API is checked with, as PEM; empty for those of the system. Kubernetes only."""
    namespace: str = ""
    """The namespace in which runners are started; `terracrew` by default. Kubernetes only."""
    audience: str = ""
    """The `aud` of the tokens; `sts.amazonaws.com` for AWS and `kubernetes` for Kubernetes by default."""


class IdentityChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change; what is left out stays."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    way: Way | UnsetType = UNSET
    role_arn: str | UnsetType = UNSET
    region: str | UnsetType = UNSET
    api_url: str | UnsetType = UNSET
    ca_certificate: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    audience: str | UnsetType = UNSET


def as_cloud_identity(record: IdentityRecord, issuer: str) -> CloudIdentity:
    """Return the identity as the fleet process gets it. `issuer` is the `iss` of the tokens that the server signs."""
    cloud = record.settings
    if isinstance(cloud, AwsAccount):
        cloud = msgspec.structs.replace(cloud, external_id=record.external_id)
    return CloudIdentity(
        id=record.id,
        organization_id=record.organization_id,
        name=record.name,
        subject=record.subject,
        audience=record.audience,
        issuer=issuer,
        cloud=cloud,
    )
