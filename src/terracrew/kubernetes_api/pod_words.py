"""Says in words why a pod waits, and who or what ended it."""

from collections.abc import Iterable

from terracrew.kubernetes_api.objects import ClusterEvent, Pod

_MAX_WORDS_CHARACTERS = 500
_HOPELESS_REASONS = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    }
)
"""Reasons of a container that seldom pass: a person has to change something."""
DELETED = "the pod was deleted by somebody else"
_DISRUPTIONS = {
    "PreemptionByScheduler": "the pod was preempted by one with a higher priority",
    "DeletionByTaintManager": "the pod was removed because its node did not answer, or was tainted",
    "EvictionByEvictionAPI": "the pod was evicted",
    "DeletionByPodGC": "the pod was removed because its node does not exist any more",
    "TerminationByKubelet": "the pod was ended by its node",
}


def is_hopeless(pod: Pod) -> bool:
    """Return whether the pod waits for something that seldom comes by itself."""
    return any(
        status.state.waiting and status.state.waiting.reason in _HOPELESS_REASONS
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )


def why_waiting(pod: Pod, events: Iterable[ClusterEvent] = ()) -> str:
    """Say why the containers of this pod have not begun; empty if it is only a moment's delay."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting and waiting.reason not in (None, "ContainerCreating", "PodInitializing"):
            return shorten(f"{waiting.reason}: {waiting.message or 'Kubernetes says nothing more'}")
    scheduled = pod.condition("PodScheduled")
    if scheduled and scheduled.status == "False":
        return shorten(f"no node can run it ({scheduled.reason}): {scheduled.message or ''}")
    return why_from_events(events)


def why_from_events(events: Iterable[ClusterEvent]) -> str:
    """Return the last warning of Kubernetes about an object."""
    warnings = [each for each in events if each.type == "Warning" and each.message]
    warnings.sort(key=lambda each: each.last_timestamp or "")
    return shorten(f"{warnings[-1].reason}: {warnings[-1].message}") if warnings else ""


def why_ended(pod: Pod) -> str:
    """Say who or what ended a pod from outside; empty if it ended by itself, or by its deadline.

    A process that is told to end does not know why, even if it has the time to finish everything.
    """
    if pod.status.reason == "Evicted":
        return shorten(f"the pod was evicted: {pod.status.message or 'its node was short of something'}")
    disruption = pod.condition("DisruptionTarget")
    if disruption and disruption.status == "True":
        what = _DISRUPTIONS.get(disruption.reason or "", f"the pod was disrupted ({disruption.reason})")
        return shorten(f"{what}: {disruption.message}" if disruption.message else what)
    return DELETED if pod.metadata.deletion_timestamp else ""


def is_final(pod: Pod) -> bool:
    """Return whether the node says nothing more about this pod."""
    return pod.status.phase in ("Succeeded", "Failed")


def eviction_from_events(events: Iterable[ClusterEvent]) -> str:
    """Return what a node noted about the eviction of a pod; empty if there was none."""
    found = [each.message for each in events if each.reason == "Evicted" and each.message]
    return shorten(f"the pod was evicted: {found[-1]}") if found else ""


def shorten(text: str) -> str:
    """Return words of Kubernetes on one line, cut to what a page can show."""
    return " ".join(text.split())[:_MAX_WORDS_CHARACTERS]
