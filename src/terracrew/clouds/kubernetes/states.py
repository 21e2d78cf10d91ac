"""What the state of a pod means for the instance that it is, in words."""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from terracrew.clouds.kubernetes.names import CONTAINER, INSTANCE_ANNOTATION
from terracrew.clouds.model import InstanceState
from terracrew.kubernetes_api import pod_words
from terracrew.kubernetes_api.objects import ClusterEvent, ContainerState, Pod, TerminatedState
from terracrew.wording import escapes

_MAX_LINE_CHARACTERS = 500
_SIGNAL_BASE_CODE = 128
_PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def state_of(pod: Pod, reference: str, events: Iterable[ClusterEvent] = ()) -> InstanceState:
    instance = pod.metadata.annotations.get(INSTANCE_ANNOTATION, pod.metadata.name)
    container = _container(pod)
    if is_ended(pod):
        end = container.terminated
        return InstanceState(
            instance=instance,
            reference=reference,
            phase="ended",
            words=_how_ended(pod, end),
            exit_code=end.exit_code if end else None,
        )
    if container.running:
        words = pod_words.why_ended(pod)
        if pod.status.phase == "Unknown":
            words = "its node does not answer"
        started_at = parse_time(container.running.started_at)
        return InstanceState(
            instance=instance, reference=reference, phase="running", words=words, started_at=started_at
        )
    return InstanceState(
        instance=instance,
        reference=reference,
        phase="starting",
        words=_why_starting(pod, list(events)),
        started_at=parse_time(pod.metadata.creation_timestamp),  # so that one which never starts is noticed
    )


def gone(reference: str, instance: str) -> InstanceState:
    """Return the state of an instance whose pod does not exist. Nothing says how it ended."""
    return InstanceState(instance=instance, reference=reference, phase="ended", words="the pod does not exist any more")


def is_ended(pod: Pod) -> bool:
    return pod_words.is_final(pod) or _container(pod).terminated is not None


def is_starting(pod: Pod) -> bool:
    return not is_ended(pod) and _container(pod).running is None


def ended_at(pod: Pod) -> datetime | None:
    """Return when a pod ended; None if it has not. One that never ran ended when it was made, as far as anybody can tell."""
    if not is_ended(pod):
        return None
    end = _container(pod).terminated
    return parse_time(end.finished_at if end else None) or parse_time(pod.metadata.creation_timestamp)


def with_lines(state: InstanceState, lines: Iterable[str]) -> InstanceState:
    return msgspec.structs.replace(state, last_lines=[_clean(line) for line in lines])


def last_words(pod: Pod) -> list[str]:
    """Return the end of the log of a container that failed, as its node has kept it."""
    end = _container(pod).terminated
    return (end.message or "").splitlines() if end else []


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def _container(pod: Pod) -> ContainerState:
    return next((each.state for each in pod.status.container_statuses if each.name == CONTAINER), ContainerState())


def _why_starting(pod: Pod, events: list[ClusterEvent]) -> str:
    if pod.metadata.deletion_timestamp:
        return "the pod is being deleted"
    waiting = _container(pod).waiting
    words = pod_words.why_waiting(pod, events)
    if waiting and waiting.reason in _PULL_REASONS:
        return f"the image cannot be pulled: {words}"
    if words:
        return words
    if not pod.spec.node_name:
        return "waiting for a node"
    reasons = {each.reason for each in events}
    if "Pulling" in reasons and "Pulled" not in reasons:
        return "pulling the image"
    return "starting the container"


def _how_ended(pod: Pod, end: TerminatedState | None) -> str:
    outside = pod_words.why_ended(pod)
    if outside:
        return outside
    if end is None:
        said = pod.status.message or "Kubernetes says nothing more"
        return pod_words.shorten(f"the pod failed ({pod.status.reason or pod.status.phase}): {said}")
    if end.reason == "OOMKilled":
        return "it was killed because memory ran out: choose a larger size"
    if end.exit_code == 0:
        return "it left by itself"
    if end.exit_code > _SIGNAL_BASE_CODE:
        return f"it was ended by signal {end.exit_code - _SIGNAL_BASE_CODE}"
    if end.reason in ("StartError", "ContainerCannotRun"):
        return pod_words.shorten(f"the container cannot be started: {end.message or end.reason}")
    return f"it ended with exit code {end.exit_code}"


def _clean(line: str) -> str:
    return escapes.plain(line)[:_MAX_LINE_CHARACTERS]
