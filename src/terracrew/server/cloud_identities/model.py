"""A cloud identity as it is stored, and what people may ask to have made or changed."""

from datetime import datetime

import msgspec

from terracrew.api import fields
from terracrew.api.cloud_identities import CloudKind
from terracrew.clouds.model import AwsAccount, CloudIdentity, CloudSettings

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


def as_cloud_identity(record: IdentityRecord, issuer: str) -> CloudIdentity:
    """Return the identity as the fleet process gets it. `issuer` is the `iss` of the tokens that the server signs."""
    cloud = record.settings
    if isinstance(cloud, AwsAccount):
        cloud = msgspec.structs.replace(cloud, external_id=record.external_id)
    return fields.created(CloudIdentity, record, issuer=issuer, cloud=cloud)
