"""The two roles of a task: with the execution role, ECS fetches the image and the secret; jobs have the task role."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from terracrew.clouds.aws.names import from_list, to_list
from terracrew.clouds.aws.steps.work import Work

EXECUTION_STEP, EXECUTION_WORDS = "execution_role", "Execution role"
TASK_STEP, TASK_WORDS = "task_role", "Task role"
_POLICY = "terracrew"
_MISSING = frozenset({"NoSuchEntity"})
_EXISTS = frozenset({"EntityAlreadyExists"})
_NEW_MINUTES = 10
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ecs-tasks.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


async def ensure_execution(work: Work, log_group: str, secret: str) -> tuple[str, str]:
    """Return the ARN of the execution role, and what was done."""
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            "Resource": "*",
        },
        {
            "Effect": "Allow",
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
            "Resource": [log_group, f"{log_group}:*"],
        },
    ]
    if secret:
        statements.append({"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": secret})
    return await _ensure(work, work.names.execution_role, "lets ECS start", statements)


async def ensure_task(work: Work) -> tuple[str, str]:
    """Return the ARN of the role that jobs have, and what was done."""
    if named := work.settings.job_role:
        return named, "was named"
    statements: list[dict[str, Any]] = []
    if work.settings.credential == "federated":
        statements.append({"Effect": "Allow", "Action": "sts:GetWebIdentityToken", "Resource": "*"})
    return await _ensure(work, work.names.task_role, "is what jobs have in", statements)


async def remove(work: Work, name: str) -> str:
    """Remove a role with its policies. Returns its ARN, or nothing."""
    found = await work.find("iam", "get_role", _MISSING, RoleName=name)
    if found is None or not work.is_removed(from_list(found["Role"].get("Tags"))):
        return ""
    attached = await work.api.listed("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name)
    for each in attached:
        await work.find("iam", "detach_role_policy", _MISSING, RoleName=name, PolicyArn=each["PolicyArn"])
    for policy in await work.api.listed("iam", "list_role_policies", "PolicyNames", RoleName=name):
        await work.find("iam", "delete_role_policy", _MISSING, RoleName=name, PolicyName=policy)
    await work.retry(
        lambda: work.find("iam", "delete_role", _MISSING, RoleName=name),
        lambda error: "IAM still shows policies of the role." if error.aws_code == "DeleteConflict" else "",
        work.waits.propagation_seconds,
    )
    return str(found["Role"]["Arn"])


async def _ensure(work: Work, name: str, purpose: str, statements: list[dict[str, Any]]) -> tuple[str, str]:
    found, said = await work.find("iam", "get_role", _MISSING, RoleName=name), "was there"
    if found is None:
        found, said = await _make(work, name, purpose), "made"
    if found is None:  # an earlier try whose answer was lost has made it
        found = await work.call("iam", "get_role", RoleName=name)
    role = found["Role"]
    work.require_ours("role", name, from_list(role.get("Tags")))
    if said == "made" or datetime.now(UTC) - role["CreateDate"] < timedelta(minutes=_NEW_MINUTES):
        work.has_new_role = True
    if statements:
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        await work.call("iam", "put_role_policy", RoleName=name, PolicyName=_POLICY, PolicyDocument=policy)
    elif said != "made":
        await work.find("iam", "delete_role_policy", _MISSING, RoleName=name, PolicyName=_POLICY)
    return str(role["Arn"]), said


async def _make(work: Work, name: str, purpose: str) -> dict[str, Any] | None:
    return await work.find(
        "iam",
        "create_role",
        _EXISTS,
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps(_TRUST),
        Description=f"Made by Terracrew. It {purpose} the tasks of a runner.",
        Tags=to_list(work.tags),
    )
