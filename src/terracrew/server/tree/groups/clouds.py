"""Cloud logins at places of the tree: which ones are allowed, and which ones apply to a module."""

from collections.abc import Iterable

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol.cloud import CloudIdentities
from terracrew.server.principals.model import AUDIENCE


def check(clouds: CloudIdentities) -> None:
    """Refuse identities whose token would be for this server itself."""
    for name, audience in clouds.audiences().items():
        if audience.strip().lower() == AUDIENCE:
            field = f"cloud.{name}.audience"
            raise Invalid(
                f"{field}: {audience!r} is this server itself: name the cloud that is to trust it", field=field
            )


def applying(places: Iterable[CloudIdentities]) -> CloudIdentities:
    """Return the identities that apply to a job, from those of all places above it, the nearest place last. For each cloud, the
    nearest place that has one decides."""
    found = CloudIdentities()
    for each in places:
        nearer = {field: value for field in each.__struct_fields__ if (value := getattr(each, field)) is not None}
        found = msgspec.structs.replace(found, **nearer)
    return found
