"""The variables of cloud logins name the role of the phase, and leave no other way to log in."""

from pathlib import Path

import msgspec
import pytest

from terracrew.errors import Invalid
from terracrew.executor.steps import cloud_variables
from terracrew.executor.steps.cloud_variables import CloudJob
from terracrew.protocol.cloud import AwsIdentity, AzureIdentity, CloudIdentities, GcpIdentity, Phase, VaultIdentity

pytestmark = pytest.mark.feature("X4.identity")

AWS = AwsIdentity("arn:aws:iam::111122223333:role/plan", "arn:aws:iam::111122223333:role/apply")
CLOUDS = CloudIdentities(aws=AWS)


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_each_phase_has_its_own_role(phase: Phase) -> None:
    found = cloud_variables.of_aws(AWS, CloudJob(phase, 7, {"aws": Path("/token")}))
    assert found == {
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/token",
        "AWS_ROLE_ARN": f"arn:aws:iam::111122223333:role/{phase}",
        "AWS_ROLE_SESSION_NAME": "terracrew-7",
    }


def test_the_runners_own_credentials_are_removed_for_these_clouds_only() -> None:
    runners = {"AWS_PROFILE": "ops", "AWS_REGION": "eu-1", "VAULT_TOKEN": "hush", "PATH": "/bin"}
    kept = cloud_variables.without_other_credentials(runners, CLOUDS)
    assert kept == {"AWS_REGION": "eu-1", "VAULT_TOKEN": "hush", "PATH": "/bin"}
    assert cloud_variables.without_other_credentials(runners, CloudIdentities()) == runners


def test_a_secret_in_a_file_of_the_runner_does_not_come_before_the_identity_in_azure() -> None:
    """The provider prefers a client secret to a token, also one from a file."""
    tenant = "00000000-0000-0000-0000-000000000001"
    clouds = CloudIdentities(azure=AzureIdentity(tenant, tenant, tenant))
    files = {"ARM_CLIENT_SECRET_FILE_PATH": "/secret", "ARM_CLIENT_ID_FILE_PATH": "/id"}
    others = {
        "ARM_OIDC_REQUEST_TOKEN": "hush",
        "ARM_OIDC_REQUEST_URL": "https://ci",
        "ARM_USE_AKS_WORKLOAD_IDENTITY": "1",
    }
    kept = cloud_variables.without_other_credentials(files | others | {"ARM_ENVIRONMENT": "public"}, clouds)
    assert kept == {"ARM_ENVIRONMENT": "public"}


def test_a_module_with_credentials_of_its_own_is_refused_and_they_are_named() -> None:
    cloud_variables.check({"AWS_REGION": "eu-1", "VAULT_TOKEN": "hush"}, CLOUDS)
    with pytest.raises(Invalid, match=r"sets AWS_PROFILE, AWS_ROLE_ARN, and it has a cloud login for aws") as refused:
        cloud_variables.check({"AWS_ROLE_ARN": "arn:secret", "AWS_PROFILE": "ops"}, CLOUDS)
    assert "arn:secret" not in refused.value.message


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (AwsIdentity, {"plan_role": "plan", "apply_role": "apply"}),
        (AwsIdentity, {"plan_role": AWS.plan_role}),
        (AwsIdentity, {"plan_role": f"{AWS.plan_role}\n", "apply_role": AWS.apply_role}),
        (VaultIdentity, {"address": "https://user:password@vault", "plan_role": "p", "apply_role": "a"}),
        (VaultIdentity, {"address": "file:///etc", "plan_role": "p", "apply_role": "a"}),
        (
            GcpIdentity,
            {"workload_identity_provider": "x", "plan_service_account": "a@b", "apply_service_account": "a@b"},
        ),
        (CloudIdentities, {"oracle": {}}),
    ],
)
def test_an_identity_that_cannot_work_is_refused(kind: type[msgspec.Struct], values: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, kind)
