"""Who may change runners chooses roles, clusters and networks: none may stand for several, and none be that of another runner."""

from typing import Any

import pytest

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws.names import names_of
from terracrew.clouds.kubernetes.names import object_name
from terracrew.clouds.model import AwsAccount, KubernetesCluster
from terracrew.errors import Invalid
from terracrew.server.cloud_hosted import setting_rules

ROLES = "arn:aws:iam::123456789012:role/"
OTHER_RUNNER = "rnr_0199a2b3c4d57e8f9a0b1c2d3e4f5a6b"
OTHERS = names_of(OTHER_RUNNER)
ACCOUNT = AwsAccount(role_arn=f"{ROLES}crew", region="eu-central-1")
CLUSTER = KubernetesCluster(api_url="https://203.0.113.7:6443")
pytestmark = pytest.mark.feature("W2.deploy")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"job_role": f"{ROLES}*"}, "is not the ARN of a role of the account 123456789012"),
        ({"job_role": "*"}, "is not the ARN of a role"),
        ({"job_role": f"{ROLES}jobs\n"}, "is not the ARN of a role"),
        ({"job_role": "arn:aws:iam::999999999999:role/jobs"}, "is not the ARN of a role of the account 123456789012"),
        ({"job_role": f"{ROLES}crew"}, "is the role of the cloud identity itself"),
        ({"job_role": f"{ROLES}{OTHERS.execution_role}"}, "was made for one runner"),
        ({"job_role": f"{ROLES}{OTHERS.task_role}"}, "was made for one runner"),
        ({"job_role": f"{ROLES}{OTHERS.execution_role.upper()}"}, "was made for one runner"),
        ({"cluster": "*"}, "is not the name of a cluster"),
        ({"cluster": 'a"}, {"Action": "*'}, "is not the name of a cluster"),
        ({"cluster": OTHERS.cluster}, "was made for one runner"),
        ({"subnets": ["subnet-1,subnet-2"]}, "is not the id of a subnet"),
        ({"subnets": ["subnet-1"] * 17}, "17 are too many"),
        ({"security_groups": ["default"]}, "is not the id of a security group"),
        ({"image": "runner:1 --privileged"}, "is not the name of an image"),
        ({"image": "runner:1\0"}, "is not the name of an image"),
    ],
)
def test_what_an_account_must_not_get_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        setting_rules.check(DeploymentSettings(**settings), ACCOUNT)
    assert refused.value.message.startswith(f"{next(iter(settings))}: ")
    assert words in refused.value.message


@pytest.mark.parametrize(
    "role", ["../secrets/other", "..", "deployer?x=1", "Deployer", "a/b", object_name(OTHER_RUNNER)]
)
def test_what_is_no_service_account_for_everybody_is_refused(role: str) -> None:
    with pytest.raises(Invalid, match="job_role: "):
        setting_rules.check(DeploymentSettings(job_role=role), CLUSTER)


def test_what_people_have_made_for_their_jobs_is_used() -> None:
    chosen = DeploymentSettings(
        image="123456789012.dkr.ecr.eu-central-1.amazonaws.com/runner@sha256:" + "0" * 64,
        job_role=f"{ROLES}teams/terracrew-jobs",
        cluster="shared_cluster-1",
        subnets=["subnet-0123456789abcdef0"],
        security_groups=["sg-0123456789abcdef0"],
    )
    setting_rules.check(chosen, ACCOUNT)
    setting_rules.check(DeploymentSettings(), ACCOUNT)
    setting_rules.check(DeploymentSettings(job_role="team.deployer"), CLUSTER)
