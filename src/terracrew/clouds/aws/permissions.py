"""The permissions that the role of a cloud identity needs, and no further ones.

Tests prove it against an implementation that enforces policies: without any one of them, something fails and names it.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from terracrew.clouds.aws.names import LOG_PREFIX, PREFIX, RUNNER_TAG, SECRET_PREFIX
from terracrew.clouds.model import AwsAccount

FARGATE_VCPU_QUOTA = "L-3032A538"
FARGATE_SPOT_VCPU_QUOTA = "L-36FBB829"
TASKS_PRINCIPAL = "ecs-tasks.amazonaws.com"

Condition = dict[str, dict[str, str]]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Actions that are allowed on the same things."""

    sid: str
    words: str
    """What they are for, as the test of the connection says it."""
    actions: list[str]
    resources: list[str]
    condition: Condition = {}

    def to_policy(self) -> dict[str, Any]:
        written: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": [*self.actions],
            "Resource": self.resources[0] if len(self.resources) == 1 else [*self.resources],
        }
        return written | ({"Condition": self.condition} if self.condition else {})


class RoleArn(msgspec.Struct, frozen=True):
    """The parts of the ARN of a role."""

    partition: str
    account: str
    name: str
    """Without its path."""


def parsed_arn(role_arn: str) -> RoleArn:
    """Return the parts of `arn:aws:iam::111122223333:role/path/name`; empty ones if it is no such ARN."""
    parts = role_arn.split(":", 5)
    if len(parts) != 6 or not parts[5].startswith("role/"):
        return RoleArn("aws", "", role_arn.rpartition("/")[2])
    return RoleArn(parts[1], parts[4], parts[5].rpartition("/")[2])


def needed(account: AwsAccount, *, clusters: Sequence[str] = (), job_roles: Sequence[str] = ()) -> list[Statement]:
    """Return what a role must be allowed. Names of clusters and ARNs of roles that deployments do not make are added to it."""
    arn = parsed_arn(account.role_arn)

    def of(service: str, resource: str, *, region: str = account.region) -> str:
        return f"arn:{arn.partition}:{service}:{region}:{arn.account}:{resource}"

    ours = f"{PREFIX}*"
    in_clusters = [ours, *clusters]
    named_clusters = [
        Statement(
            sid="NamedClusters",
            words="See the clusters that people have named",
            actions=["ecs:DescribeClusters"],
            resources=[of("ecs", f"cluster/{cluster}") for cluster in clusters],
        )
    ]
    return [
        Statement(
            sid="StartTasks",
            words="Start tasks",
            actions=["ecs:RunTask"],
            resources=[of("ecs", f"task-definition/{ours}")],
        ),
        Statement(
            sid="Tasks",
            words="See and stop tasks",
            actions=["ecs:DescribeTasks", "ecs:StopTask", "ecs:TagResource"],
            resources=[of("ecs", f"task/{cluster}/*") for cluster in in_clusters],
        ),
        Statement(
            sid="Clusters",
            words=f"Clusters named {ours}",
            actions=["ecs:CreateCluster", "ecs:DeleteCluster", "ecs:DescribeClusters", "ecs:TagResource"],
            resources=[of("ecs", f"cluster/{ours}")],
        ),
        *(named_clusters if clusters else []),
        Statement(
            sid="FirstCluster",
            words="The role that ECS itself has in an account that has never used it",
            actions=["iam:CreateServiceLinkedRole"],
            resources=[of("iam", "role/aws-service-role/ecs.amazonaws.com/*", region="")],
            condition={"StringEquals": {"iam:AWSServiceName": "ecs.amazonaws.com"}},
        ),
        Statement(
            sid="TaskDefinitions",
            words=f"Task definitions named {ours}",
            actions=["ecs:DeleteTaskDefinitions", "ecs:RegisterTaskDefinition", "ecs:TagResource"],
            resources=[of("ecs", f"task-definition/{ours}")],
        ),
        Statement(
            sid="OldTaskDefinitions",
            words="Deregister old task definitions",
            actions=["ecs:DeregisterTaskDefinition"],
            resources=["*"],  # AWS does not narrow it
        ),
        Statement(
            sid="Roles",
            words=f"Make and remove roles named {ours}",
            actions=[
                "iam:CreateRole",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:GetRole",
                "iam:ListAttachedRolePolicies",
                "iam:ListRolePolicies",
                "iam:PutRolePolicy",
                "iam:TagRole",
            ],
            resources=[of("iam", f"role/{ours}", region="")],
        ),
        Statement(
            sid="GiveRoles",
            words="Give these roles to tasks",
            actions=["iam:PassRole"],
            resources=[of("iam", f"role/{ours}", region=""), *job_roles],
            condition={"StringEquals": {"iam:PassedToService": TASKS_PRINCIPAL}},
        ),
        Statement(
            sid="Logs",
            words=f"Log groups named {LOG_PREFIX}*",
            actions=[
                "logs:CreateLogGroup",
                "logs:DeleteLogGroup",
                "logs:GetLogEvents",
                "logs:ListTagsForResource",
                "logs:PutRetentionPolicy",
                "logs:TagResource",
            ],
            resources=[of("logs", f"log-group:{LOG_PREFIX}*")],
        ),
        Statement(
            sid="Secrets",
            words=f"Secrets named {SECRET_PREFIX}*",
            actions=[
                "secretsmanager:CreateSecret",
                "secretsmanager:DeleteSecret",
                "secretsmanager:DescribeSecret",
                "secretsmanager:PutSecretValue",
                "secretsmanager:TagResource",
            ],
            resources=[of("secretsmanager", f"secret:{SECRET_PREFIX}*")],
        ),
        Statement(
            sid="MakeSecurityGroups",
            words="Make security groups",
            actions=["ec2:CreateSecurityGroup"],
            resources=[of("ec2", "security-group/*"), of("ec2", "vpc/*")],
        ),
        Statement(
            sid="TagSecurityGroups",
            words="Tag the security groups that it makes",
            actions=["ec2:CreateTags"],
            resources=[of("ec2", "security-group/*")],
            condition={"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}},
        ),
        Statement(
            sid="OurSecurityGroups",
            words="Remove security groups that have our tags",
            actions=["ec2:DeleteSecurityGroup"],
            resources=[of("ec2", "security-group/*")],
            condition={"Null": {f"aws:ResourceTag/{RUNNER_TAG}": "false"}},
        ),
        Statement(
            sid="Read",
            words="Read networks, quotas and lists",
            actions=[
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ecs:DescribeTaskDefinition",
                "ecs:ListClusters",
                "ecs:ListTaskDefinitionFamilies",
                "ecs:ListTaskDefinitions",
                "ecs:ListTasks",
                "iam:ListRoles",
                "logs:DescribeLogGroups",
                "secretsmanager:ListSecrets",
                "servicequotas:GetServiceQuota",
                "tag:GetResources",
            ],
            resources=["*"],  # AWS does not narrow these further
        ),
        Statement(
            sid="Images",
            words="See whether ECR has the image",
            actions=["ecr:DescribeImages"],
            resources=[of("ecr", "repository/*")],
        ),
        Statement(
            sid="CheckItself",
            words="Check its own permissions",
            actions=["iam:SimulatePrincipalPolicy"],
            resources=[account.role_arn],
        ),
    ]
