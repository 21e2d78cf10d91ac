"""The tasks of a runner, which are stopped before what they use is removed."""

import time

from terracrew.clouds.aws import watching
from terracrew.clouds.aws.steps.work import Work
from terracrew.clouds.contract import CloudRefused

STEP, WORDS = "tasks", "Tasks"
_LOOK_SECONDS = 2.0
_MISSING = frozenset({"ClusterNotFoundException", "InvalidParameterException"})


async def stop_all(work: Work) -> str:
    """Stop every task of the runner, and wait until they have ended. Returns how many there were, in words."""
    stopped: list[str] = []
    for cluster in watching.clusters(work.deployment):
        listed = await watching.list_tasks(work.api, cluster, work.deployment)
        shown = await watching.describe_tasks(work.api, cluster, listed)
        ended = {str(each["taskArn"]) for each in shown if each.get("lastStatus") == "STOPPED"}
        running = [arn for arn in listed if arn not in ended]
        for arn in running:
            await work.find("ecs", "stop_task", _MISSING, cluster=cluster, task=arn, reason="The runner is removed")
        await _wait(work, cluster, running)
        stopped += running
    return f"{len(stopped)} stopped" if stopped else "none"


async def _wait(work: Work, cluster: str, arns: list[str]) -> None:
    until, said = time.monotonic() + work.waits.stopping_seconds, False
    while arns:
        shown = await watching.describe_tasks(work.api, cluster, arns)
        arns = [str(each["taskArn"]) for each in shown if each.get("lastStatus") != "STOPPED"]
        if arns and time.monotonic() > until:
            raise CloudRefused(f"ECS does not stop these tasks: {', '.join(arns)}. Remove again in some minutes")
        if arns and not said:
            work.reporter.line(f"{len(arns)} tasks have up to two minutes to end.")
            said = True
        if arns:
            await work.pause(_LOOK_SECONDS)
