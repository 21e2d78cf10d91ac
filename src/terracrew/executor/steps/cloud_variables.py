"""The environment variables with which the tools of clouds find the identity of a job.

Each function returns the variables of one cloud. `CREDENTIALS` has further ones, which would make a tool use something else: the
runner's are removed, and a module that sets one of them cannot have a cloud login as well.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol.cloud import (
    AwsIdentity,
    AzureIdentity,
    CloudIdentities,
    CloudName,
    GcpIdentity,
    Phase,
    VaultIdentity,
)

CREDENTIALS: dict[CloudName, frozenset[str]] = {
    "aws": frozenset(
        {
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_PROFILE",
            "AWS_DEFAULT_PROFILE",
            "AWS_ROLE_ARN",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        }
    ),
    "azure": frozenset(
        {
            "ARM_CLIENT_ID",
            "ARM_CLIENT_ID_FILE_PATH",
            "ARM_CLIENT_SECRET",
            "ARM_CLIENT_SECRET_FILE_PATH",
            "ARM_CLIENT_CERTIFICATE",
            "ARM_CLIENT_CERTIFICATE_PATH",
            "ARM_TENANT_ID",
            "ARM_USE_OIDC",
            "ARM_USE_MSI",
            "ARM_USE_AKS_WORKLOAD_IDENTITY",
            "ARM_OIDC_REQUEST_TOKEN",
            "ARM_OIDC_REQUEST_URL",
            "ARM_OIDC_TOKEN",
            "ARM_OIDC_TOKEN_FILE_PATH",
        }
    ),
    "gcp": frozenset(
        {
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CREDENTIALS",
            "GOOGLE_CLOUD_KEYFILE_JSON",
            "GCLOUD_KEYFILE_JSON",
            "GOOGLE_OAUTH_ACCESS_TOKEN",
            "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
        }
    ),
    "vault": frozenset(
        {"VAULT_TOKEN", "TERRAFORM_VAULT_AUTH_JWT", "TERRACREW_VAULT_ROLE", "TF_VAR_terracrew_vault_role"}
    ),
}
"""By cloud, the variables that decide who a tool logs in as."""


class CloudJob(msgspec.Struct, frozen=True):
    """What the variables of a phase are made from."""

    phase: Phase
    number: int
    tokens: Mapping[CloudName, Path]
    """The files with the tokens."""


def without_other_credentials(environment: Mapping[str, str], clouds: CloudIdentities) -> dict[str, str]:
    """Return the runner's environment without the credentials for clouds in which the job has an identity of its own."""
    removed = {name for cloud in clouds.audiences() for name in CREDENTIALS[cloud]}
    return {name: value for name, value in environment.items() if name not in removed}


def check(given: Mapping[str, str], clouds: CloudIdentities) -> None:
    """Refuse variables of a module that would make its engine log in to a cloud as somebody else than its identity there."""
    for cloud in clouds.audiences():
        if own := sorted(CREDENTIALS[cloud] & given.keys()):
            raise Invalid(
                f"the environment of this module sets {', '.join(own)}, and it has a cloud login for {cloud}: remove the "
                "variable, or the identity (`cloud` of the module or of a group above it)"
            )


def external_account(gcp: GcpIdentity, job: CloudJob) -> str:
    """Return the file that Google's libraries read: where the token is, and which service account it is exchanged for."""
    account = gcp.service_account(job.phase)
    return json.dumps(
        {
            "type": "external_account",
            "audience": f"//iam.googleapis.com/{gcp.workload_identity_provider}",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": "https://sts.googleapis.com/v1/token",
            "credential_source": {"file": str(job.tokens["gcp"]), "format": {"type": "text"}},
            "service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
            f"{account}:generateAccessToken",
        },
        indent=2,
    )


def of_aws(aws: AwsIdentity, job: CloudJob) -> dict[str, str]:
    # The provider and the libraries for Go read the first one, and the library for Python only the second.
    region = dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), aws.region) if aws.region else {}
    return region | {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(job.tokens["aws"]),
        "AWS_ROLE_ARN": aws.role(job.phase),
        "AWS_ROLE_SESSION_NAME": aws.session_name or f"terracrew-{job.number}",
    }


def of_azure(azure: AzureIdentity, job: CloudJob) -> dict[str, str]:
    subscription = {"ARM_SUBSCRIPTION_ID": azure.subscription_id} if azure.subscription_id else {}
    return subscription | {
        "ARM_USE_OIDC": "true",
        "ARM_OIDC_TOKEN_FILE_PATH": str(job.tokens["azure"]),
        "ARM_CLIENT_ID": azure.client_id(job.phase),
        "ARM_TENANT_ID": azure.tenant_id,
    }


def of_gcp(gcp: GcpIdentity, account_file: Path) -> dict[str, str]:
    project = {"GOOGLE_PROJECT": gcp.project} if gcp.project else {}
    return project | {"GOOGLE_APPLICATION_CREDENTIALS": str(account_file)}


def of_vault(vault: VaultIdentity, job: CloudJob, token: str) -> dict[str, str]:
    """Return the variables of Vault's provider, which reads a token from no file, and of its programs. No variable names a role
    for them, so the module reads that itself."""
    namespace = {"VAULT_NAMESPACE": vault.namespace} if vault.namespace else {}
    role = vault.role(job.phase)
    return namespace | {
        "VAULT_ADDR": vault.address,
        "TERRAFORM_VAULT_AUTH_JWT": token,
        "TERRACREW_VAULT_ROLE": role,
        "TERRACREW_VAULT_MOUNT": vault.mount or "jwt",
        "TF_VAR_terracrew_vault_role": role,
    }
