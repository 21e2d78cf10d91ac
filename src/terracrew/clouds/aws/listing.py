"""Finds the tasks of a runner. They are listed by their mark, because a task that is stopped loses its tags."""

from collections.abc import Iterable, Sequence
from typing import Any

from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import names_of
from terracrew.clouds.model import Deployment

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
