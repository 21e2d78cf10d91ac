"""Says in words why a task did not start or how it ended, from what ECS reports."""

from collections.abc import Mapping
from typing import Any

from terracrew.executor.container import ends
from terracrew.runner.dispatch.ecs.tasks import Task

_MAX_REASON_CHARACTERS = 500
_FAILURES = {
    "AGENT": "no container instance of the cluster has an agent that is connected",
    "ATTRIBUTE": "no container instance of the cluster has the attributes that the task definition asks for",
    "CAPACITY": "there is no capacity for the task at the moment",
    "EMPTY CAPACITY PROVIDER": "the capacity provider of the cluster has no container instances",
    "INACTIVE": "the cluster or its container instances are not active",
    "LOCATION": "no container instance of the cluster is in a subnet of the task",
    "MISSING": "ECS does not know it",
    "RESOURCE:CPU": "no container instance of the cluster has enough CPU units left",
    "RESOURCE:ENI": "no container instance of the cluster has a network interface left",
    "RESOURCE:GPU": "no container instance of the cluster has enough GPUs left",
    "RESOURCE:MEMORY": "no container instance of the cluster has enough memory left",
    "RESOURCE:PORTS": "no container instance of the cluster has the ports of the task free",
}
_PROBLEMS = {
    "CannotPullContainerError": "its image cannot be pulled",
    "CannotCreateContainerError": "its container cannot be made",
    "CannotStartContainerError": "its container cannot be started",
    "CannotStartContainer": "its container cannot be started",
    "ContainerRuntimeError": "the container runtime failed",
    "ContainerRuntimeTimeoutError": "the container runtime did not answer",
    "InternalError": "ECS had an internal error",
    "OutOfMemoryError": "its container was killed because memory ran out",
    "OutOfMemory": "its container was killed because memory ran out",
    "ResourceInitializationError": "something that the task needs could not be made ready",
    "TaskFailedToStart": "the task failed to start",
}
_STOP_CODES = {
    "ServiceSchedulerInitiated": "a service of ECS stopped the task",
    "SpotInterruption": "the capacity of its task was taken away, because it was spot capacity",
    "TerminationNotice": "the machine of its task was taken away",
    "UserInitiated": "somebody stopped its task",
}


def of_failures(failures: list[Mapping[str, Any]]) -> str:
    """Say why RunTask started nothing."""
    found: list[str] = []
    for failure in failures:
        reason = str(failure.get("reason", ""))
        detail = f" ({failure['detail']})" if failure.get("detail") else ""
        known = next((words for name, words in _FAILURES.items() if reason.upper().startswith(name)), "")
        found.append(f"{known}: {reason}{detail}" if known else f"ECS answered {reason}{detail}")
    return f"its task was not started: {'; '.join(dict.fromkeys(found)) or 'ECS did not say why'}"[
        :_MAX_REASON_CHARACTERS
    ]


def of_end(task: Task, container: Mapping[str, Any]) -> str:
    """Say how a task ended that did not end by itself with everything delivered."""
    said = [_clean(container.get("reason")), _clean(task.get("stoppedReason"))]
    reasons = list(dict.fromkeys(each for each in said if each))
    known = next((words for name, words in _PROBLEMS.items() if any(name in each for each in reasons)), "")
    known = known or _STOP_CODES.get(str(task.get("stopCode", "")), "")
    if not known:
        code = container.get("exitCode")
        known = "its task was ended" if code is None else f"its container ended with exit code {code}"
        known = ends.UNKNOWN_END if code == ends.UNKNOWN_EXIT_CODE else known
    return f"{known}: {'; '.join(reasons)}"[:_MAX_REASON_CHARACTERS] if reasons else known


def of_stop(task: Task) -> str:
    """Say who stopped a task whose containers would have continued; empty if it ended by itself."""
    known, reason = _STOP_CODES.get(str(task.get("stopCode", "")), ""), _clean(task.get("stoppedReason"))
    return f"{known}: {reason}"[:_MAX_REASON_CHARACTERS] if known and reason else known


def of_waiting(task: Task, container: Mapping[str, Any]) -> str:
    """Say what a task waits for that does not run yet."""
    reason = _clean(container.get("reason")) or _clean(task.get("stoppedReason"))
    return f"its status is {task.get('lastStatus', 'unknown')}" + (f": {reason}" if reason else "")


def _clean(text: object) -> str:
    return " ".join(str(text or "").split())
