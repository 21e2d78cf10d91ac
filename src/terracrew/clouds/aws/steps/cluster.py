"""The cluster that tasks run in: one that people named, or one that the deployment makes."""

import time
from typing import Any

from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import from_list, to_list
from terracrew.clouds.aws.steps.work import Work
from terracrew.clouds.contract import CloudRefused

STEP, WORDS = "cluster", "Cluster"
_ON_DEMAND, _SPOT = "FARGATE", "FARGATE_SPOT"
_LOOK_SECONDS = 2.0
_NOT_EMPTY = frozenset(
    {"ClusterContainsTasksException", "ClusterContainsServicesException", "UpdateInProgressException"}
)


async def ensure(work: Work) -> tuple[str, str]:
    """Return the ARN of the cluster, and what was done."""
    if named := work.settings.cluster:
        found = await describe(work, named)
        if found is None:
            raise CloudRefused(
                f"there is no cluster {named} in {work.deployment.region}. Name another one, or none, so that one is made"
            )
        if work.settings.is_spot and _SPOT not in found.get("capacityProviders", []):
            raise CloudRefused(
                f"the cluster {named} has no Spot capacity. Add the capacity provider {_SPOT} to it, or deploy without Spot: "
                f"`aws ecs put-cluster-capacity-providers --cluster {named} --capacity-providers {_ON_DEMAND} {_SPOT} "
                "--default-capacity-provider-strategy []`"
            )
        return str(found["clusterArn"]), "was named"
    if found := await describe(work, work.names.cluster):
        work.require_ours("cluster", work.names.cluster, from_list(found.get("tags")))
        return str(found["clusterArn"]), "was there"
    answer = await work.retry(lambda: _make(work), _lag, work.waits.propagation_seconds)
    return str(answer["cluster"]["clusterArn"]), "made"


async def describe(work: Work, name: str) -> dict[str, Any] | None:
    """Return a cluster, with its tags; None if there is none. One that was deleted is shown for a while as inactive."""
    answer = await work.call("ecs", "describe_clusters", clusters=[name], include=["TAGS"])
    return next((each for each in answer.get("clusters", []) if each.get("status") != "INACTIVE"), None)


async def remove(work: Work) -> str:
    """Remove the cluster that deployments made, if nothing of somebody else runs in it. Returns its ARN, or nothing."""
    name = work.names.cluster
    found = await describe(work, name)
    if found is None or not work.is_removed(from_list(found.get("tags"))):
        return ""
    if not await is_empty(work, name):
        raise CloudRefused(
            f"the cluster {name} has tasks that were not started for this runner. Stop them, then remove again"
        )
    await work.retry(
        lambda: work.find("ecs", "delete_cluster", ("ClusterNotFoundException",), cluster=name),
        lambda error: "The cluster is not empty yet." if error.aws_code in _NOT_EMPTY else "",
        work.waits.emptying_seconds,
    )
    return str(found["clusterArn"])


async def is_empty(work: Work, name: str) -> bool:
    """Return whether no task runs in a cluster. A task that was just stopped may be shown for a moment."""
    until = time.monotonic() + work.waits.emptying_seconds
    while (await work.call("ecs", "list_tasks", cluster=name, desiredStatus="RUNNING")).get("taskArns"):
        if time.monotonic() > until:
            return False
        await work.pause(min(_LOOK_SECONDS, work.waits.emptying_seconds))
    return True


async def _make(work: Work) -> dict[str, Any]:
    return await work.call(
        "ecs",
        "create_cluster",
        clusterName=work.names.cluster,
        tags=to_list(work.tags, "key", "value"),
        capacityProviders=[_ON_DEMAND, _SPOT],
    )


def _lag(error: AwsRefused) -> str:
    """The first cluster of an account makes a role of ECS itself, and the same request may come too early for it."""
    return "ECS has just made its own role in this account." if "service linked role" in error.message.lower() else ""
