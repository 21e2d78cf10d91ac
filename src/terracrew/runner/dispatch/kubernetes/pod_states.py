"""What the state of a pod means: whether its executor has begun or ended, why it waits, and how it ended, in words."""

from terracrew.attempt import exit_codes
from terracrew.executor.container import ends
from terracrew.executor.container.ends import ContainerEnd
from terracrew.kubernetes_api import pod_words
from terracrew.kubernetes_api.objects import ContainerStatus, Pod, TerminatedState
from terracrew.runner.dispatch.kubernetes.pod_template import EXECUTOR
from terracrew.runner.dispatch.kubernetes.pod_watch import SeenPod

_NEVER_STARTED_REASONS = frozenset({"StartError", "ContainerCannotRun", "CreateContainerError"})
_LOST_REASON = "ContainerStatusUnknown"


def executor_of(pod: Pod) -> ContainerStatus | None:
    return next((each for each in pod.status.container_statuses if each.name == EXECUTOR), None)


def terminated(pod: Pod) -> TerminatedState | None:
    status = executor_of(pod)
    return status.state.terminated if status else None


def has_started(pod: Pod) -> bool:
    """Return whether the first process has been started, as far as the API server knows."""
    status = executor_of(pod)
    return status is not None and (status.state.running is not None or status.state.terminated is not None)


def has_ended(seen: SeenPod) -> bool:
    """Return whether nothing of the attempt runs any more. A pod that is to be removed, or whose node is silent, may still run."""
    return seen.is_gone or terminated(seen.pod) is not None or pod_words.is_final(seen.pod)


def was_never_started(seen: SeenPod) -> bool:
    """Return whether the first process of a pod that has ended was certainly never started."""
    pod, status = seen.pod, executor_of(seen.pod)
    if (end := terminated(pod)) is not None:
        # A node calls the state of a container unknown, too, if the pod was deleted before the container was made.
        is_unmade = end.reason == _LOST_REASON and not seen.has_run and not (status and status.container_id)
        return is_unmade or end.reason in _NEVER_STARTED_REASONS
    if not pod.spec.node_name:
        return True
    # A node reports that a pod has failed only after it knows what became of its containers. One that does not take back its
    # own pod after a restart forgets them.
    is_reported = pod.status.phase == "Failed" and pod.status.reason != "NodeLost" and not seen.has_run
    return is_reported and (status is None or (status.state.waiting is not None and not status.container_id))


def report_of(pod: Pod) -> ContainerEnd | None:
    """Return what the first process said at its end; None if it was killed before it could."""
    if (end := terminated(pod)) is None or end.reason == _LOST_REASON:
        return None
    return ends.decode(end.message or "") or ends.of_exit_code(end.exit_code)


def lacks_cause(pod: Pod) -> bool:
    """Return whether the executor was ended from outside, and the pod does not say why.

    A node reports the end of a container before that of the pod, which has the words about an eviction. A pod that is evicted
    and ends with exit code 0 never has them: its node calls it a success.
    """
    if terminated(pod) is None or pod_words.why_ended(pod):
        return False
    report = report_of(pod)
    return report is None or report.was_interrupted


def how(seen: SeenPod) -> str:
    """Say how a pod ended whose executor did not deliver everything by itself."""
    pod, end = seen.pod, terminated(seen.pod)
    if (outside := pod_words.why_ended(pod)) and outside != pod_words.DELETED:
        return outside
    if end is not None and end.reason == "OOMKilled":
        limit = f" of {_memory_limit(pod)}" if _memory_limit(pod) else ""
        return f"a process of its pod was killed because memory ran out: the limit{limit} was reached"
    if end is None and pod.status.phase == "Failed":
        return pod_words.shorten(
            f"the pod failed ({pod.status.reason}): {pod.status.message or 'Kubernetes says nothing more'}"
        )
    if end is None or (seen.is_gone and pod.metadata.deletion_timestamp and end.exit_code > 128):
        return pod_words.DELETED
    return _how_executor(ends.decode(end.message or ""), end)


def _memory_limit(pod: Pod) -> str:
    """Return the limit of this pod, which its job or the pod template may have chosen."""
    return next((each.resources.limits.get("memory", "") for each in pod.spec.containers if each.name == EXECUTOR), "")


def _how_executor(report: ContainerEnd | None, end: TerminatedState) -> str:
    if report is None:
        if end.exit_code == ends.UNKNOWN_EXIT_CODE:
            return ends.UNKNOWN_END
        if end.exit_code > 128:
            return f"its pod was ended by signal {end.exit_code - 128}"
        said = f": {end.message}" if end.message else ""
        return pod_words.shorten(f"the container of the executor ended with exit code {end.exit_code}{said}")
    if not report.has_begun:
        said = f": {report.last_line}" if report.last_line else ""
        return pod_words.shorten(f"the executor ended before it had begun{said}")
    code = report.executor
    if report.refused:
        return "the server refused what the executor had to deliver"
    if code is None:
        return "its container was started twice, so its executor is dead"
    what = f"the executor was ended by signal {-code}" if code < 0 else f"the executor ended with exit code {code}"
    return what if report.done or code == exit_codes.DELIVERED else f"{what}, and what it left could not be delivered"


def why_not_begun(seen: SeenPod) -> str:
    end = terminated(seen.pod)
    if end is not None and end.reason in _NEVER_STARTED_REASONS:
        return pod_words.shorten(f"the container of the executor cannot be started: {end.message or end.reason}")
    return how(seen)
