"""Cloud logins at places of the tree: how they are changed, and which ones apply to a module."""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.errors import Invalid
from terracrew.protocol.cloud import AwsIdentity, AzureIdentity, CloudIdentities, GcpIdentity, VaultIdentity
from terracrew.server.principals.model import AUDIENCE


class CloudChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which identities to change. One is replaced as a whole; what is left out stays, and null removes it, so that the one of the
    nearest group above applies."""

    aws: AwsIdentity | UnsetType | None = UNSET
    azure: AzureIdentity | UnsetType | None = UNSET
    gcp: GcpIdentity | UnsetType | None = UNSET
    vault: VaultIdentity | UnsetType | None = UNSET


def changed(clouds: CloudIdentities, wanted: CloudChange) -> CloudIdentities:
    """Return the identities after a change. Raises Invalid if a token would be for this server itself."""
    given = {field: value for field in wanted.__struct_fields__ if (value := getattr(wanted, field)) is not UNSET}
    after = msgspec.structs.replace(clouds, **given)
    for name, audience in after.audiences().items():
        if audience.strip().lower() == AUDIENCE:
            raise Invalid(
                f"cloud.{name}.audience: {audience!r} is this server itself: name the cloud that is to trust it"
            )
    return after


def applying(places: Iterable[CloudIdentities]) -> CloudIdentities:
    """Return the identities that apply to a job, from those of all places above it, the nearest place last. For each cloud, the
    nearest place that has one decides."""
    found = CloudIdentities()
    for each in places:
        nearer = {field: value for field in each.__struct_fields__ if (value := getattr(each, field)) is not None}
        found = msgspec.structs.replace(found, **nearer)
    return found
