"""The form that creates and changes a cloud identity: fields, not JSON."""

from typing import Any, Literal

import msgspec

from terracrew.clouds.model import CloudKind, Way
from terracrew.server.cloud_identities.model import IdentityChange, IdentityRecord, NewIdentity

_OF_KINDS: dict[CloudKind, tuple[str, ...]] = {
    "aws": ("role_arn", "region"),
    "kubernetes": ("api_url", "ca_certificate", "namespace"),
}
"""The fields that only identities of a cloud have."""


class IdentityForm(msgspec.Struct, frozen=True, kw_only=True):
    cloud: Literal["aws", "kubernetes"] = "aws"
    name: str = ""
    group: str = ""
    description: str = ""
    way: Way = "web_identity"
    role_arn: str = ""
    region: str = ""
    api_url: str = ""
    ca_certificate: str = ""
    namespace: str = ""
    audience: str = ""


def as_new(form: IdentityForm) -> NewIdentity:
    return NewIdentity(kind=form.cloud, group=form.group, **_typed(form, form.cloud))


def as_change(form: IdentityForm, kind: CloudKind) -> IdentityChange:
    """Return everything that the form has; the service finds out what has changed."""
    return IdentityChange(**_typed(form, kind))


def of_record(record: IdentityRecord) -> IdentityForm:
    settings: dict[str, Any] = msgspec.structs.asdict(record.settings)
    settings.pop("external_id", None)
    return IdentityForm(
        cloud=record.kind,
        name=record.name,
        group=record.group,
        description=record.description,
        audience=record.audience,
        **settings,
    )


def _typed(form: IdentityForm, kind: CloudKind) -> dict[str, Any]:
    fields = ("name", "description", "audience", *_OF_KINDS[kind])
    return {"way": form.way} | {field: getattr(form, field).strip() for field in fields}
