"""Says what became of instances: which stage a task is in, or why it ended."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from terracrew.clouds.aws import task_words
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import CONTAINER, names_of
from terracrew.clouds.contract import CloudSilent
from terracrew.clouds.model import Deployment, InstanceState
from terracrew.clouds.runner_environment import INSTANCE_VARIABLE

_MAX_LINES_COUNT = 20
_MAX_LINE_CHARACTERS = 500
_MAX_LOG_SECONDS = 5.0
_MAX_LOG_READS_COUNT = 4
"""Of how many instances the last lines are read in one look. If more ended at once, they had the same reason."""


Task = dict[str, Any]
MAX_DESCRIBED_TASKS = 100
_MISSING_CLUSTER = "ClusterNotFoundException"


def clusters(deployment: Deployment) -> list[str]:
    """Return the clusters that tasks of the runner can be in. The first one is where they are started now."""
    own = names_of(deployment.runner_id).cluster
    recorded = deployment.facts.get("cluster", "")
    named = (recorded, deployment.settings.cluster, own)
    return list({_short(each): each for each in reversed(named) if each}.values())[::-1]


async def list_tasks(api: AwsApi, cluster: str, deployment: Deployment) -> list[str]:
    """Return the ARNs of the runner's tasks that ECS has not been asked to stop. `startedBy` must be the only filter."""
    try:
        return [
            str(arn)
            for arn in await api.listed(
                "ecs", "list_tasks", "taskArns", cluster=cluster, startedBy=names_of(deployment.runner_id).started_by
            )
        ]
    except AwsRefused as error:
        if error.aws_code == _MISSING_CLUSTER:
            return []
        raise


async def describe_tasks(api: AwsApi, cluster: str, arns: Iterable[str]) -> list[Task]:
    """Return what ECS says about tasks. One that it does not know, or does not know yet, is left out."""
    wanted: Sequence[str] = list(dict.fromkeys(arns))
    found: list[Task] = []
    for start in range(0, len(wanted), MAX_DESCRIBED_TASKS):
        part = wanted[start : start + MAX_DESCRIBED_TASKS]
        try:
            answer = await api.call("ecs", "describe_tasks", cluster=cluster, tasks=part)
        except AwsRefused as error:
            if error.aws_code == _MISSING_CLUSTER:
                return []
            raise
        found += answer.get("tasks", [])
    return found


def cluster_of(arn: str) -> str:
    """Return the name of the cluster that a task is in, from its ARN; empty if it does not say so."""
    parts = arn.split(":task/")[-1].split("/")
    return parts[0] if len(parts) == 2 else ""


def _short(cluster: str) -> str:
    return cluster.rpartition("/")[2]


async def watch(api: AwsApi, deployment: Deployment, references: Sequence[str]) -> list[InstanceState]:
    """Return the tasks of the runner, and those with these ARNs. A task that ECS does not know, or not yet, is left out."""
    found: dict[str, Task] = {}
    wanted = {arn: cluster_of(arn) for arn in references}
    current = clusters(deployment)[0].rpartition("/")[2]
    for cluster in dict.fromkeys([current, *(each for each in wanted.values() if each)]):
        # Tasks in a cluster that was named before a change are known by their ARNs.
        listed = await list_tasks(api, cluster, deployment) if cluster == current else []
        here = [arn for arn, where in wanted.items() if (where or current) == cluster]
        for task in await describe_tasks(api, cluster, [*listed, *here]):
            found[str(task["taskArn"])] = task
    ended_badly = [task for task in found.values() if _ended_badly(task) and task["taskArn"] in wanted]
    reads = (_last_lines(api, deployment, task) for task in ended_badly[:_MAX_LOG_READS_COUNT])
    lines = dict(await asyncio.gather(*reads))
    return [_state(task, lines.get(arn, [])) for arn, task in found.items()]


async def stop(api: AwsApi, reference: str, cluster: str, reason: str) -> None:
    """Stop a task. One that is gone is no error."""
    where = cluster_of(reference) or cluster
    try:
        await api.call(
            "ecs", "stop_task", cluster=where, task=reference, reason=reason[: task_words.MAX_REASON_CHARACTERS]
        )
    except AwsRefused as error:
        if error.aws_code not in ("InvalidParameterException", "ClusterNotFoundException"):
            raise


def _state(task: Task, lines: list[str]) -> InstanceState:
    container = task_words.container_of(task)
    return InstanceState(
        instance=_instance(task),
        reference=str(task["taskArn"]),
        phase=task_words.phase(task),
        words=task_words.words(task),
        started_at=task.get("startedAt"),
        exit_code=container.get("exitCode"),
        last_lines=lines,
    )


def _instance(task: Task) -> str:
    """Return the name that the task was started with. It is in the request, which ECS keeps; tags are lost."""
    overrides: list[dict[str, Any]] = task.get("overrides", {}).get("containerOverrides", [])
    for override in overrides:
        for each in override.get("environment", []):
            if override.get("name") == CONTAINER and each.get("name") == INSTANCE_VARIABLE:
                return str(each.get("value", ""))
    return ""


def _ended_badly(task: Task) -> bool:
    return task_words.phase(task) == "ended" and task_words.container_of(task).get("exitCode") != 0


async def _last_lines(api: AwsApi, deployment: Deployment, task: Task) -> tuple[str, list[str]]:
    arn = str(task["taskArn"])
    try:
        answer = await api.call(
            "logs",
            "get_log_events",
            max_seconds=_MAX_LOG_SECONDS,
            logGroupName=names_of(deployment.runner_id).log_group,
            logStreamName=f"{task_words.LOG_STREAM_PREFIX}/{CONTAINER}/{arn.rpartition('/')[2]}",
            limit=_MAX_LINES_COUNT,
            startFromHead=False,
        )
    except (AwsRefused, CloudSilent):
        return arn, []  # a container that never ran has printed nothing; a log that cannot be read hides no end
    return arn, [str(each["message"])[:_MAX_LINE_CHARACTERS] for each in answer.get("events", [])]
