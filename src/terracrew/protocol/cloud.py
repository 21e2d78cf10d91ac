"""The cloud logins of a job: as whom its engine logs in to clouds, in each phase. They name roles and contain no secret."""

from typing import Annotated, Literal

import msgspec

from terracrew.protocol.field import Field

CloudName = Literal["aws", "azure", "gcp", "vault"]

_ROLE_ARN = r"^arn:[a-z0-9-]+:iam::[0-9]{12}:role/[\x21-\x7e]+\Z"
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"
_PROVIDER = r"^projects/[0-9]+/locations/global/workloadIdentityPools/[a-z0-9-]+/providers/[a-z0-9-]+\Z"
_EMAIL = r"^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+\Z"
_ADDRESS = r"^https?://[!\"$->A-~]+\Z"
"""Printable characters of ASCII without `#`, `?` and `@`. Their complement would take Python milliseconds to compile."""

Audience = Annotated[str, msgspec.Meta(pattern=r"^[!-~]*\Z", max_length=200)]
RoleArn = Annotated[str, msgspec.Meta(pattern=_ROLE_ARN, max_length=512)]
Uuid = Annotated[str, msgspec.Meta(pattern=_UUID)]
Email = Annotated[str, msgspec.Meta(pattern=_EMAIL, max_length=200)]
RoleName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]+\Z", max_length=200)]


Phase = Literal["plan", "apply"]
"""The steps up to the plan change nothing, and the later ones do."""


class AwsIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Roles of AWS IAM that trust this server's tokens."""

    plan_role: Annotated[RoleArn, Field(label="Role for plans", metavar="arn:aws:iam::111122223333:role/plan")]
    """The ARN of the role for everything up to the plan; it needs to read only."""
    apply_role: Annotated[
        RoleArn, Field(label="Role for applies and destroys", metavar="arn:aws:iam::111122223333:role/apply")
    ]
    """The ARN of the role for the apply or destroy."""
    audience: Annotated[Audience, Field(label="Audience of the token", metavar="sts.amazonaws.com")] = ""
    """The audience of the token; `sts.amazonaws.com` if empty."""
    region: Annotated[
        str, msgspec.Meta(pattern=r"^[a-z0-9-]*\Z", max_length=50), Field(label="Region", metavar="eu-central-1")
    ] = ""
    session_name: Annotated[
        str,
        msgspec.Meta(pattern=r"^[A-Za-z0-9+=,.@_-]*\Z", max_length=64),
        Field(label="Name of the session", metavar="terracrew-42"),
    ] = ""
    """The name of the session in CloudTrail; `terracrew-` and the number of the job if empty."""

    @property
    def token_audience(self) -> str:
        return self.audience or "sts.amazonaws.com"

    def role(self, phase: Phase) -> str:
        return self.apply_role if phase == "apply" else self.plan_role


class AzureIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Applications or managed identities of Microsoft Entra with a federated credential for this server."""

    tenant_id: Annotated[Uuid, Field(label="Tenant id")]
    plan_client_id: Annotated[Uuid, Field(label="Client id for plans")]
    apply_client_id: Annotated[Uuid, Field(label="Client id for applies and destroys")]
    subscription_id: Annotated[str, msgspec.Meta(pattern=rf"({_UUID})|^\Z"), Field(label="Subscription id")] = ""
    audience: Annotated[Audience, Field(label="Audience of the token", metavar="api://AzureADTokenExchange")] = ""
    """The audience of the token; `api://AzureADTokenExchange` if empty."""

    @property
    def token_audience(self) -> str:
        return self.audience or "api://AzureADTokenExchange"

    def client_id(self, phase: Phase) -> str:
        return self.apply_client_id if phase == "apply" else self.plan_client_id


class GcpIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Service accounts of Google Cloud that a workload identity provider lets this server's tokens impersonate."""

    workload_identity_provider: Annotated[
        str,
        msgspec.Meta(pattern=_PROVIDER, max_length=300),
        Field(
            label="Workload identity provider",
            metavar="projects/1/locations/global/workloadIdentityPools/ci/providers/terracrew",
        ),
    ]
    """`projects/<number>/locations/global/workloadIdentityPools/<pool>/providers/<provider>`"""
    plan_service_account: Annotated[
        Email, Field(label="Service account for plans", metavar="plan@project.iam.gserviceaccount.com")
    ]
    apply_service_account: Annotated[
        Email, Field(label="Service account for applies and destroys", metavar="apply@project.iam.gserviceaccount.com")
    ]
    project: Annotated[
        str, msgspec.Meta(pattern=r"^[a-z0-9:.-]*\Z", max_length=100), Field(label="Project", metavar="my-project")
    ] = ""
    audience: Annotated[Audience, Field(label="Audience of the token")] = ""
    """The audience of the token; `https://iam.googleapis.com/` and the name of the provider if empty."""

    @property
    def token_audience(self) -> str:
        return self.audience or f"https://iam.googleapis.com/{self.workload_identity_provider}"

    def service_account(self, phase: Phase) -> str:
        return self.apply_service_account if phase == "apply" else self.plan_service_account


class VaultIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Roles of the JWT auth method of a Vault."""

    address: Annotated[
        str, msgspec.Meta(pattern=_ADDRESS, max_length=300), Field(label="Address", metavar="https://vault.example.com")
    ]
    plan_role: Annotated[RoleName, Field(label="Role for plans", metavar="plan")]
    apply_role: Annotated[RoleName, Field(label="Role for applies and destroys", metavar="apply")]
    mount: Annotated[
        str,
        msgspec.Meta(pattern=r"^[A-Za-z0-9._/-]*\Z", max_length=200),
        Field(label="Mount of the auth method", metavar="jwt"),
    ] = ""
    """Where the auth method is mounted; `jwt` if empty."""
    namespace: Annotated[
        str, msgspec.Meta(pattern=r"^[A-Za-z0-9._/-]*\Z", max_length=200), Field(label="Namespace")
    ] = ""
    audience: Annotated[Audience, Field(label="Audience of the token")] = ""
    """The audience of the token; the address if empty."""

    @property
    def token_audience(self) -> str:
        return self.audience or self.address

    def role(self, phase: Phase) -> str:
        return self.apply_role if phase == "apply" else self.plan_role


class CloudIdentities(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The identity of a job in each cloud. A cloud without one gets no variables."""

    aws: Annotated[AwsIdentity | None, Field(label="Amazon Web Services")] = None
    azure: Annotated[AzureIdentity | None, Field(label="Microsoft Azure")] = None
    gcp: Annotated[GcpIdentity | None, Field(label="Google Cloud")] = None
    vault: Annotated[VaultIdentity | None, Field(label="HashiCorp Vault or OpenBao")] = None

    def audiences(self) -> dict[CloudName, str]:
        """Return the audience of the token for each cloud that has an identity."""
        found = {"aws": self.aws, "azure": self.azure, "gcp": self.gcp, "vault": self.vault}
        return {name: each.token_audience for name, each in found.items() if each is not None}  # pyright: ignore[reportReturnType]
