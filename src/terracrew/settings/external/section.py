"""The settings of external settings: which setting is read from where, and how the stores are reached."""

from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, SecretStr

from terracrew.client.address import checked as checked_address
from terracrew.settings.external import references
from terracrew.settings.values import SHOWN, Directory, SecretFile, SettingsSection, Text, checked


def _is_reference(text: str) -> str:
    references.parse(text)
    return text


Address = Annotated[str, checked(checked_address), SHOWN]
ReferenceText = Annotated[str, AfterValidator(_is_reference)]
PrivatePath = Annotated[Directory, SecretFile()]


class VaultStore(SettingsSection):
    """HashiCorp Vault, for references that begin with `vault:`."""

    address: Address | None = Field(
        default=None, description="The address of Vault, such as `https://vault.example.com:8200`."
    )
    allow_plain_http: bool = Field(default=False, description="Allow http:// to a Vault that is not on this machine.")
    ca_file: Directory | None = Field(
        default=None, description="Certificates (PEM) to check Vault's own with, instead of those of the system."
    )
    namespace: Text = Field(default="", description="The namespace, where Vault has namespaces.")
    auth: Literal["token", "approle", "jwt", "kubernetes"] = Field(default="token", description="How to log in.")
    mount: Text | None = Field(
        default=None,
        min_length=1,
        description="The path at which the auth method is enabled; by default the name of the method.",
    )
    token: SecretStr | None = Field(default=None, min_length=1, description="With `token`: the token.")
    token_file: PrivatePath | None = Field(
        default=None, description="With `token`: a file with the token, such as the sink of a Vault Agent."
    )
    role: Text | None = Field(default=None, min_length=1, description="With `jwt` and `kubernetes`: the role.")
    role_id: Text | None = Field(default=None, min_length=1, description="With `approle`: the role id.")
    secret_id: SecretStr | None = Field(default=None, min_length=1, description="With `approle`: the secret id.")
    secret_id_file: PrivatePath | None = Field(default=None, description="With `approle`: a file with the secret id.")
    jwt_file: PrivatePath | None = Field(
        default=None,
        description="With `jwt` and `kubernetes`: a file with the token that is presented to Vault. `kubernetes` has the "
        "token of the pod's service account as its default.",
    )


class AwsStores(SettingsSection):
    """AWS Secrets Manager and Parameter Store, for references that begin with `aws-secret:` and `aws-parameter:`.

    The credentials are those that every AWS tool finds: variables, `~/.aws`, the role of the machine, task or pod."""

    region: Text | None = Field(
        default=None, min_length=1, description="The region; by default that of the AWS configuration."
    )
    endpoint_url: Address | None = Field(
        default=None, description="Another address of the services, such as that of a VPC endpoint or an emulator."
    )


class AzureStore(SettingsSection):
    """Azure Key Vault, for references that begin with `azure:`."""

    auth: Literal["client-secret", "federated", "managed-identity"] = Field(
        default="managed-identity", description="How to get a token from Microsoft Entra."
    )
    tenant_id: Text | None = Field(
        default=None, min_length=1, description="With `client-secret` and `federated`: the tenant (or AZURE_TENANT_ID)."
    )
    client_id: Text | None = Field(
        default=None, min_length=1, description="The application or the user-assigned identity (or AZURE_CLIENT_ID)."
    )
    client_secret: SecretStr | None = Field(default=None, min_length=1, description="With `client-secret`: the secret.")
    client_secret_file: PrivatePath | None = Field(
        default=None, description="With `client-secret`: a file with the secret."
    )
    federated_token_file: PrivatePath | None = Field(
        default=None,
        description="With `federated`: a file with the token of a workload (or AZURE_FEDERATED_TOKEN_FILE).",
    )
    authority: Address = Field(
        default="https://login.microsoftonline.com",
        description="With `client-secret` and `federated`: where tokens come from.",
    )
    metadata_url: Address = Field(
        default="http://169.254.169.254", description="With `managed-identity`: the metadata service of the machine."
    )


class External(SettingsSection):
    """Settings whose values are kept elsewhere; [external settings](external-settings.md) has the whole story. They override all
    other layers."""

    settings: Annotated[dict[str, ReferenceText], SHOWN] = Field(
        default={}, description="The name of a setting → a reference to its value, such as `vault:kv/terracrew#token`."
    )
    timeout_seconds: float = Field(
        default=30, ge=1, le=600, description="How long all references together may take to be read."
    )
    vault: VaultStore = Field(default_factory=VaultStore)
    aws: AwsStores = Field(default_factory=AwsStores)
    azure: AzureStore = Field(default_factory=AzureStore)


class ExternalFacts(NamedTuple):
    """What a process must know about its external settings beside their values."""

    private_files: tuple[str, ...] = ()
    """The files with secrets that the settings name. No job may read them."""
    secret_variables: tuple[str, ...] = ()
    """The variables that references name. No job gets them."""
    reread_seconds: float | None = None
    """After how long everything must be read again, so that a token does not expire."""
