"""The stages and ends of a task, in words."""

from collections.abc import Mapping
from typing import Any, Literal

from terracrew.clouds.aws.names import CONTAINER

LOG_STREAM_PREFIX = "instance"
MAX_REASON_CHARACTERS = 500
_STARTING = {"PROVISIONING", "PENDING", "ACTIVATING"}
_ENDED = {"DEPROVISIONING", "STOPPED", "DELETED"}
_PROBLEMS = (
    ("CannotPullContainerError", "its image cannot be pulled"),
    ("CannotPullImageManifestError", "its image cannot be pulled"),
    ("ResourceInitializationError", "ECS could not make ready what it needs: the image, the secret or the log"),
    ("OutOfMemory", "it was killed because its memory ran out. Choose a larger size"),
    ("CannotCreateContainerError", "its container cannot be made"),
    ("CannotStartContainerError", "its container cannot be started"),
    ("unable to assume", "ECS may not use a role of the deployment"),
)
_STOP_CODES = {
    "SpotInterruption": "AWS took its Spot capacity back",
    "TerminationNotice": "AWS took its machine out of service",
    "InfrastructureHealth": "its machine failed",
    "UserInitiated": "somebody stopped it",
    "ServiceSchedulerInitiated": "a service of ECS stopped it",
    "TaskFailedToStart": "it failed to start",
}


def phase(task: Mapping[str, Any]) -> Literal["starting", "running", "ended"]:
    status = task.get("lastStatus")
    if status in _ENDED:
        return "ended"
    return "starting" if status in _STARTING else "running"


def words(task: Mapping[str, Any]) -> str:
    """Say what a task is doing, or why it ended."""
    match phase(task):
        case "ended":
            return _end(task)
        case "starting":
            return "is being stopped" if task.get("desiredStatus") == "STOPPED" else _stage(task)
        case _ if task.get("desiredStatus") == "STOPPED":
            return f"is being stopped: {_reasons(task)}" if _reasons(task) else "is being stopped"
        case _:
            return "running"


def container_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the container of the runner process, as DescribeTasks shows it; empty if it is not there."""
    containers: list[dict[str, Any]] = task.get("containers", [])
    return next((each for each in containers if each.get("name") == CONTAINER), dict[str, Any]())


def _stage(task: Mapping[str, Any]) -> str:
    status = task.get("lastStatus")
    if status == "PROVISIONING":
        return "getting a machine and an address"
    if status == "ACTIVATING" or task.get("pullStoppedAt"):
        return "starting"
    return "pulling the image"


def _end(task: Mapping[str, Any]) -> str:
    reasons, code = _reasons(task), container_of(task).get("exitCode")
    known = next((words for sign, words in _PROBLEMS if sign in reasons), "")
    known = known or _STOP_CODES.get(str(task.get("stopCode", "")), "")
    if not known:
        known = "it ended" if code is None else f"it ended with exit code {code}"
        if task.get("stopCode") == "EssentialContainerExited":
            return known  # what ECS says beside it is only that the container ended
    return f"{known}: {reasons}" if reasons else known


def _reasons(task: Mapping[str, Any]) -> str:
    said = (container_of(task).get("reason"), task.get("stoppedReason"))
    cleaned = dict.fromkeys(" ".join(str(each or "").split()) for each in said)
    return "; ".join(each for each in cleaned if each)[:MAX_REASON_CHARACTERS]
