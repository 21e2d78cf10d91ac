"""The permissions that people are shown are those of the calls that the code makes: not one fewer, and not one more."""

import ast
import itertools
from pathlib import Path

from terracrew.clouds import aws
from terracrew.clouds.aws import permissions
from terracrew.clouds.aws.api import Service
from terracrew.clouds.aws.errors import action_name
from terracrew.clouds.model import AwsAccount

ACCOUNT = AwsAccount(role_arn="arn:aws:iam::111122223333:role/fleet", region="eu-central-1")
WITHOUT_PERMISSION = {"sts:GetCallerIdentity": "everybody may ask AWS who one is"}
WITHOUT_CALL = {
    "ec2:CreateTags": "a security group is made with its tags",
    "ecs:TagResource": "clusters, task definitions and tasks are made with their tags",
    "iam:CreateServiceLinkedRole": "ECS makes its own role with the first cluster of an account",
    "iam:PassRole": "a task definition gives its roles to tasks",
    "iam:TagRole": "a role is made with its tags",
    "logs:TagResource": "a log group is made with its tags",
    "secretsmanager:TagResource": "a secret is made with its tags",
}
"""Actions that AWS checks as a part of another one."""
NOT_NARROWED_BY_AWS = {
    *(
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ecs:DeregisterTaskDefinition",
        "ecs:DescribeTaskDefinition",
    ),
    *("ecs:ListClusters", "ecs:ListTaskDefinitionFamilies", "ecs:ListTaskDefinitions", "iam:ListRoles"),
    *("logs:DescribeLogGroups", "secretsmanager:ListSecrets", "tag:GetResources"),
    "ecs:ListTasks",  # AWS narrows it by instances of EC2, of which Fargate has none
    "servicequotas:GetServiceQuota",  # AWS narrows it, but not in the same way in all its documents
}
"""By AWS's own reference of actions and resources. A policy that names resources for them allows nothing."""


def called_actions() -> set[str]:
    """Return the actions of all calls: the name of a service, followed by that of an operation."""
    services = set(Service.__args__)
    found: set[str] = set()
    for file in Path(aws.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            words = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
            for service, operation in itertools.pairwise(words):
                if service in services and isinstance(operation, str) and operation.isidentifier():
                    found.add(action_name(str(service), operation))
    return found


def shown_actions() -> set[str]:
    return {action for statement in permissions.needed(ACCOUNT) for action in statement.actions}


def test_each_call_has_its_permission() -> None:
    assert called_actions() - WITHOUT_PERMISSION.keys() - shown_actions() == set()
    assert WITHOUT_PERMISSION.keys() <= called_actions()


def test_each_permission_has_its_call() -> None:
    assert shown_actions() - called_actions() == WITHOUT_CALL.keys()


def test_what_aws_does_not_narrow_is_allowed_on_everything_and_nothing_else_is() -> None:
    wide = {action for each in permissions.needed(ACCOUNT) if "*" in each.resources for action in each.actions}
    assert wide == NOT_NARROWED_BY_AWS


def test_a_cluster_of_people_can_be_looked_at_and_not_be_removed() -> None:
    cluster = "arn:aws:ecs:eu-central-1:111122223333:cluster/shared"
    allowed = {
        action
        for statement in permissions.needed(ACCOUNT, clusters=["shared"])
        for action in statement.actions
        if cluster in statement.resources
    }
    assert allowed == {"ecs:DescribeClusters"}
    assert len(permissions.needed(ACCOUNT, clusters=["shared"])) == len(permissions.needed(ACCOUNT)) + 1
