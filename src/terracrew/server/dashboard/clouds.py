"""The field for cloud identities in the forms of groups and modules: what was typed, and the change that it asks for."""

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol.cloud import CloudIdentities
from terracrew.server.dashboard.limits import LimitsFields
from terracrew.server.groups.clouds import CloudChange

_MAX_CHARACTERS = 10_000


class CloudField(LimitsFields, frozen=True, kw_only=True):
    """The identities as JSON, as they were typed, in a form that has the fields for limits as well. Empty means none."""

    cloud: str = ""


def names(clouds: CloudIdentities) -> list[str]:
    """Return the clouds in which a place or a job has an identity."""
    return list(clouds.audiences())


def typed(clouds: CloudIdentities) -> str:
    """Return identities as the field shows them."""
    text = msgspec.json.encode(clouds)
    return "" if text == b"{}" else msgspec.json.format(text, indent=2).decode()


def wanted(field: CloudField) -> CloudChange:
    """Return the change that makes the identities of a place what the field says."""
    text = field.cloud.strip()
    if len(text) > _MAX_CHARACTERS:
        raise Invalid(f"the cloud identities have more than {_MAX_CHARACTERS:,} characters")
    try:
        found = msgspec.json.decode(text or "{}", type=CloudIdentities)
    except msgspec.MsgspecError as error:
        raise Invalid(f"these cloud identities are not valid: {error}") from None
    return CloudChange(found.aws, found.azure, found.gcp, found.vault)
