"""The fields for cloud logins in the forms of groups and modules: what was typed, and the change that it asks for."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from terracrew.api.place_settings import CloudChange
from terracrew.errors import Invalid
from terracrew.protocol.cloud import (
    AwsIdentity,
    AzureIdentity,
    CloudIdentities,
    CloudName,
    GcpIdentity,
    VaultIdentity,
)

CLOUDS: Mapping[CloudName, type[msgspec.Struct]] = {
    "aws": AwsIdentity,
    "azure": AzureIdentity,
    "gcp": GcpIdentity,
    "vault": VaultIdentity,
}
TITLES: Mapping[CloudName, str] = {
    "aws": "Amazon Web Services",
    "azure": "Microsoft Azure",
    "gcp": "Google Cloud",
    "vault": "HashiCorp Vault or OpenBao",
}
_LABELS = {
    "plan_role": "Role for plans",
    "apply_role": "Role for applies and destroys",
    "audience": "Audience of the token",
    "region": "Region",
    "session_name": "Name of the session",
    "tenant_id": "Tenant id",
    "plan_client_id": "Client id for plans",
    "apply_client_id": "Client id for applies and destroys",
    "subscription_id": "Subscription id",
    "workload_identity_provider": "Workload identity provider",
    "plan_service_account": "Service account for plans",
    "apply_service_account": "Service account for applies and destroys",
    "project": "Project",
    "address": "Address",
    "mount": "Mount of the auth method",
    "namespace": "Namespace",
}
_ROLE_EXAMPLE, _UUID_EXAMPLE = "arn:aws:iam::111122223333:role/", "00000000-0000-0000-0000-000000000000"
_EXAMPLES = {
    "aws_plan_role": f"{_ROLE_EXAMPLE}plan",
    "aws_apply_role": f"{_ROLE_EXAMPLE}apply",
    "aws_audience": "sts.amazonaws.com",
    "aws_region": "eu-central-1",
    "aws_session_name": "terracrew-42",
    "azure_tenant_id": _UUID_EXAMPLE,
    "azure_plan_client_id": _UUID_EXAMPLE,
    "azure_apply_client_id": _UUID_EXAMPLE,
    "azure_subscription_id": _UUID_EXAMPLE,
    "azure_audience": "api://AzureADTokenExchange",
    "gcp_workload_identity_provider": "projects/1/locations/global/workloadIdentityPools/ci/providers/terracrew",
    "gcp_plan_service_account": "plan@project.iam.gserviceaccount.com",
    "gcp_apply_service_account": "apply@project.iam.gserviceaccount.com",
    "gcp_project": "my-project",
    "gcp_audience": "that of the provider",
    "vault_address": "https://vault.example.com",
    "vault_plan_role": "plan",
    "vault_apply_role": "apply",
    "vault_mount": "jwt",
    "vault_namespace": "none",
    "vault_audience": "the address",
}
"""What each field looks like; of one that may be empty, what applies then."""


class CloudFieldWords(msgspec.Struct, frozen=True):
    """A field of the form."""

    name: str
    label: str
    example: str
    is_required: bool
    """Whether an identity in this cloud needs it."""


def _words(cloud: CloudName) -> list[CloudFieldWords]:
    return [
        CloudFieldWords(f"{cloud}_{each.name}", _LABELS[each.name], _EXAMPLES[f"{cloud}_{each.name}"], each.required)
        for each in msgspec.structs.fields(CLOUDS[cloud])
    ]


FIELDS: Mapping[CloudName, list[CloudFieldWords]] = {cloud: _words(cloud) for cloud in get_args(CloudName)}
"""The fields of each cloud, in the order of its identity."""
CloudFields: type[msgspec.Struct] = msgspec.defstruct(
    "CloudFields", [(each.name, str, "") for of in FIELDS.values() for each in of], frozen=True, kw_only=True
)
"""The values as they were typed, by cloud and field: `aws_plan_role`. A cloud whose fields are all empty has no identity."""


def names(clouds: CloudIdentities) -> list[str]:
    """Return the clouds in which a place or a job has an identity."""
    return list(clouds.audiences())


def given(form: msgspec.Struct) -> set[str]:
    """Return the names of the fields that are not empty."""
    return {name for name, value in msgspec.structs.asdict(form).items() if value}


def to_form(clouds: CloudIdentities) -> msgspec.Struct:
    """Return identities as the fields show them."""
    found = {cloud: getattr(clouds, cloud) for cloud in CLOUDS}
    values = {
        f"{cloud}_{field}": getattr(identity, field)
        for cloud, identity in found.items()
        if identity is not None
        for field in identity.__struct_fields__
    }
    return CloudFields(**values)


def from_form(form: msgspec.Struct) -> CloudChange:
    """Return the change that makes the identities of a place what the fields say."""
    return CloudChange(**{cloud: _identity(form, cloud) for cloud in CLOUDS})


def _identity(form: msgspec.Struct, cloud: CloudName) -> Any:
    values = {field: getattr(form, f"{cloud}_{field}").strip() for field in CLOUDS[cloud].__struct_fields__}
    filled = {field: value for field, value in values.items() if value}
    if not filled:
        return None
    for each in FIELDS[cloud]:
        if each.is_required and each.name.removeprefix(f"{cloud}_") not in filled:
            raise Invalid(
                f"an identity in {TITLES[cloud]} needs this: write it, or empty all its fields", field=each.name
            )
    try:
        return msgspec.convert(filled, CLOUDS[cloud])
    except msgspec.ValidationError as error:
        field = str(error).rpartition("$.")[2].rstrip("`")
        name = f"{cloud}_{field}"
        raise Invalid(
            f"{filled.get(field, '')[:100]!r} is not valid: write it like {_EXAMPLES[name]}", field=name
        ) from None
