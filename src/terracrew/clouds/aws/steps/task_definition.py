"""The task definition: what a task is. A change makes a new revision; the revision that tasks were started from last stays, too."""

import hashlib
import json
from typing import Any

from terracrew.clouds import runner_environment
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import CONTAINER, DIGEST_TAG, Tags, from_list, to_list
from terracrew.clouds.aws.steps.work import Work
from terracrew.clouds.aws.task_words import LOG_STREAM_PREFIX
from terracrew.clouds.contract import CloudRefused

STEP, WORDS = "task_definition", "Task definition"
STOP_TIMEOUT_SECONDS = 120
"""The longest that Fargate waits between SIGTERM and SIGKILL."""
HELPER_PATH = "/opt/credhelpers/aws"
_ARCHITECTURES = {"x86_64": "X86_64", "arm64": "ARM64"}
_MISSING = frozenset({"ClientException"})
_MAX_DELETED_ENTRIES = 10


def environment(work: Work) -> dict[str, str]:
    """Return the variables of an instance, without secrets and without its name, which each task has of its own."""
    found = runner_environment.variables(work.deployment, helper=HELPER_PATH)
    if work.settings.credential == "federated":
        audience = f"--region {work.deployment.region} --aud {work.deployment.server_url}"
        found["TERRACREW_RUNNER__CREDENTIALS__HELPER__ARGS"] = audience
    return found


def request(work: Work, execution_role: str, task_role: str, secret: str) -> dict[str, Any]:
    """Return the arguments of RegisterTaskDefinition, without tags."""
    settings = work.settings
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": settings.image,
        "essential": True,
        "memory": settings.memory_mb,
        "stopTimeout": STOP_TIMEOUT_SECONDS,
        "linuxParameters": {"initProcessEnabled": True},
        "environment": [{"name": name, "value": value} for name, value in environment(work).items()],
        "logConfiguration": {
            "logDriver": "awslogs",
            "options": {
                "awslogs-group": work.names.log_group,
                "awslogs-region": work.deployment.region,
                "awslogs-stream-prefix": LOG_STREAM_PREFIX,
            },
        },
    }
    if secret:
        container["secrets"] = [{"name": runner_environment.WORKER_TOKEN_VARIABLE, "valueFrom": secret}]
    return {
        "family": work.names.family,
        "networkMode": "awsvpc",
        "requiresCompatibilities": ["FARGATE"],
        "cpu": str(settings.cpu_units),
        "memory": str(settings.memory_mb),
        "runtimePlatform": {
            "cpuArchitecture": _ARCHITECTURES[settings.architecture],
            "operatingSystemFamily": "LINUX",
        },
        "executionRoleArn": execution_role,
        "taskRoleArn": task_role,
        "containerDefinitions": [container],
    }


async def ensure(work: Work, execution_role: str, task_role: str, secret: str) -> tuple[str, str]:
    """Return the ARN of the revision that has these settings, and what was done."""
    wanted = request(work, execution_role, task_role, secret)
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
    latest = await _described(work, work.names.family)
    if latest is not None:
        arn, tags = latest
        work.require_ours("task definition", work.names.family, tags)
        if tags.get(DIGEST_TAG) == digest:
            return arn, "was there"
    tags = to_list(work.tags | {DIGEST_TAG: digest}, "key", "value")
    answer = await work.retry(
        lambda: work.call("ecs", "register_task_definition", **wanted, tags=tags),
        lambda error: _lag(work, error),
        work.waits.propagation_seconds,
    )
    return str(answer["taskDefinition"]["taskDefinitionArn"]), "made"


async def remove_old(work: Work, kept: str) -> int:
    """Remove revisions other than this one and the one that tasks were started from last. Returns how many."""
    wanted = {kept, work.deployment.facts.get(STEP, "")}
    old = [arn for arn in await _listed(work, "ACTIVE") if arn not in wanted]
    await _delete(work, old)
    return len(old)


async def remove(work: Work) -> str:
    """Remove all revisions, also those that were deregistered. Returns how many these were, in words."""
    active = await _listed(work, "ACTIVE")
    removed: list[str] = []
    for arn in active:
        described = await _described(work, arn)
        if described is not None and work.is_removed(described[1]):
            removed.append(arn)
    await _delete(work, removed)
    if not work.is_unwinding:
        left = [arn for arn in await _listed(work, "INACTIVE") if arn not in removed]
        await _delete(work, left, is_active=False)
        removed += left
    return ", ".join(removed)


async def _delete(work: Work, arns: list[str], *, is_active: bool = True) -> None:
    """Deregister and delete revisions. Tasks that were started from one run on."""
    for arn in arns if is_active else []:
        await work.find("ecs", "deregister_task_definition", _MISSING, taskDefinition=arn)
    for start in range(0, len(arns), _MAX_DELETED_ENTRIES):
        part = arns[start : start + _MAX_DELETED_ENTRIES]
        answer = await work.call("ecs", "delete_task_definitions", taskDefinitions=part)
        if failures := answer.get("failures"):
            named = "; ".join(f"{each.get('arn')}: {each.get('reason')} {each.get('detail', '')}" for each in failures)
            raise CloudRefused(f"ECS did not delete revisions of the task definition: {named}")


async def _listed(work: Work, status: str) -> list[str]:
    found = await work.api.listed(
        "ecs", "list_task_definitions", "taskDefinitionArns", familyPrefix=work.names.family, status=status
    )
    return [str(arn) for arn in found if str(arn).split("/")[-1].rpartition(":")[0] == work.names.family]


async def _described(work: Work, name: str) -> tuple[str, Tags] | None:
    """Return the ARN and the tags of a revision, or of the latest active one of the family; None if there is none."""
    answer = await work.find("ecs", "describe_task_definition", _MISSING, taskDefinition=name, include=["TAGS"])
    if answer is None or answer["taskDefinition"].get("status") != "ACTIVE":
        return None
    return str(answer["taskDefinition"]["taskDefinitionArn"]), from_list(answer.get("tags"))


def _lag(work: Work, error: AwsRefused) -> str:
    is_lag = "PassRole" in error.message or "role is not valid" in error.message.lower()
    is_named = bool(work.settings.job_role) and work.settings.job_role in error.message
    return "ECS does not know the new role yet." if work.has_new_role and is_lag and not is_named else ""
