"""What the state of a pod means, without a cluster."""

from typing import Any

import msgspec
import pytest

from terracrew.attempt import exit_codes, ownership
from terracrew.executor.container import ends
from terracrew.executor.container.ends import ContainerEnd
from terracrew.kubernetes_api import pod_words
from terracrew.kubernetes_api.objects import ClusterEvent, Pod
from terracrew.runner.dispatch.kubernetes import pod_states
from terracrew.runner.dispatch.kubernetes.pod_watch import SeenPod

pytestmark = pytest.mark.feature("D4.kubernetes")
EXECUTOR = {"name": "executor", "resources": {"limits": {"memory": "2Gi"}}}
SIDECAR = {"name": "proxy", "resources": {"limits": {"memory": "64Mi"}}}
SIGNED = ownership.signature(ownership.UNKNOWN_PROCESS)


def _seen(state: dict[str, Any] | None = None, *, is_gone: bool = False, node: str = "n", **status: Any) -> SeenPod:
    statuses = [] if state is None else [{"name": "executor", "state": state}]
    document = {
        "metadata": {"name": "pod", "uid": "u"},
        "spec": {"containers": [SIDECAR, EXECUTOR], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running", "containerStatuses": statuses, **status},
    }
    return SeenPod(msgspec.convert(document, Pod), is_gone)


def _ended(code: int, message: str = "", reason: str = "Error", **more: Any) -> SeenPod:
    return _seen({"terminated": {"exitCode": code, "message": message, "reason": reason}}, **more)


def _disrupted(reason: str, message: str) -> list[dict[str, str]]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("seen", "is_over"),
    [
        (_seen(RUNNING), False),
        (_seen({"waiting": {"reason": "ContainerCreating"}}, phase="Pending"), False),
        (_seen(RUNNING, phase="Unknown"), False),
        (_seen(RUNNING, conditions=[{"type": "Ready", "status": "False", "reason": "NodeStatusUnknown"}]), False),
        (_seen(RUNNING, is_gone=True), True),
        (_ended(0), True),
        (_seen(phase="Failed", reason="Evicted"), True),
    ],
)
def test_an_attempt_is_over_only_when_kubernetes_says_so(seen: SeenPod, is_over: bool) -> None:
    assert pod_states.has_ended(seen) == is_over


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (
            _seen(RUNNING, phase="Failed", reason="Evicted", message="The node was low on resource: memory. "),
            "the pod was evicted: The node was low on resource: memory.",
        ),
        (
            _ended(137, conditions=_disrupted("PreemptionByScheduler", "default-scheduler: preempting")),
            "the pod was preempted by one with a higher priority: default-scheduler: preempting",
        ),
        (
            _seen(RUNNING, is_gone=True, conditions=_disrupted("DeletionByPodGC", "node no longer exists")),
            "the pod was removed because its node does not exist any more: node no longer exists",
        ),
        (_seen(RUNNING, is_gone=True), "the pod was deleted by somebody else"),
        (
            _ended(137, reason="OOMKilled"),
            "a process of its pod was killed because memory ran out: the limit of 2Gi was reached",
        ),
        (_ended(137), "its pod was ended by signal 9"),
        (
            _ended(255, reason="Unknown"),
            "its container was found dead, as after a restart of its machine or of the container runtime",
        ),
        (
            _ended(77, ends.encode(ContainerEnd(-9, SIGNED)).decode()),
            "the executor was ended by signal 9, and what it left could not be delivered",
        ),
        (_ended(76, ends.encode(ContainerEnd(-9, SIGNED, done="4")).decode()), "the executor was ended by signal 9"),
    ],
)
def test_the_end_of_a_pod_is_said_in_words(seen: SeenPod, words: str) -> None:
    assert pod_states.how(seen) == words


def test_a_pod_that_was_interrupted_has_a_cause_and_one_that_ended_by_itself_has_none() -> None:
    assert pod_words.why_ended(_ended(0).pod) == ""
    assert pod_words.why_ended(_seen(phase="Failed", reason="DeadlineExceeded").pod) == "", "a cancel does that"
    evicted = _ended(0, conditions=_disrupted("EvictionByEvictionAPI", "Eviction API: evicting")).pod
    assert pod_words.why_ended(evicted) == "the pod was evicted: Eviction API: evicting"
    metadata = msgspec.structs.replace(evicted.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    deleted = msgspec.structs.replace(_ended(0).pod, metadata=metadata)
    assert pod_words.why_ended(deleted) == "the pod was deleted by somebody else"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (_seen(RUNNING), False),
        (_ended(137), True),
        (_ended(0, ends.encode(ContainerEnd(0, SIGNED, done="4", was_interrupted=True)).decode()), True),
        (_ended(0, ends.encode(ContainerEnd(0, SIGNED, done="4")).decode()), False),
        (_ended(137, phase="Failed"), True),
        (_ended(137, conditions=_disrupted("TerminationByKubelet", "low on memory")), False),
    ],
)
def test_the_cause_of_an_end_is_searched_for_only_if_it_came_from_outside(seen: SeenPod, expected: bool) -> None:
    """Symptom: a pod that was evicted and had the time to deliver everything ended without a word about that."""
    assert pod_states.lacks_cause(seen.pod) == expected


def test_the_event_of_an_eviction_says_why() -> None:
    events = [
        ClusterEvent("Normal", "Started", "Started container executor"),
        ClusterEvent("Warning", "Evicted", "Usage of EmptyDir volume exceeds the limit"),
        ClusterEvent("Normal", "Killing", "Stopping container executor"),
    ]
    assert pod_words.eviction_from_events(events) == "the pod was evicted: Usage of EmptyDir volume exceeds the limit"
    assert pod_words.eviction_from_events(events[::2]) == ""


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (_seen(phase="Pending", node="", is_gone=True), True),
        (_seen(phase="Failed", reason="OutOfcpu"), True),
        (msgspec.structs.replace(_seen(phase="Failed", reason="Evicted"), has_run=True), False),
        (_ended(128, "exec: python3: not found", "StartError"), True),
        (_ended(137, reason="ContainerStatusUnknown", is_gone=True), True),
        (msgspec.structs.replace(_ended(137, reason="ContainerStatusUnknown"), has_run=True), False),
        (_seen({"waiting": {"reason": "ContainerCreating"}}, phase="Pending", is_gone=True), False),
        (_seen(phase="Failed", reason="NodeLost"), False),
        (_seen(RUNNING, is_gone=True), False),
        (_ended(137), False),
    ],
)
def test_a_pod_counts_as_never_started_only_if_that_is_certain(seen: SeenPod, expected: bool) -> None:
    assert pod_states.was_never_started(seen) == expected


@pytest.mark.parametrize(
    ("seen", "begun"),
    [
        (_ended(0, ends.encode(ContainerEnd(0, SIGNED, done="4")).decode()), True),
        (_ended(exit_codes.ABANDONED), True),
        (_ended(1, "No module named terracrew"), False),
        (_ended(137), None),
        (_ended(255, reason="Unknown"), None),
        (_ended(137, reason="ContainerStatusUnknown"), None),
    ],
)
def test_the_report_of_the_first_process_is_read(seen: SeenPod, begun: bool | None) -> None:
    report = pod_states.report_of(seen.pod)
    assert (report and report.has_begun) == begun


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (_seen({"waiting": {"reason": "ContainerCreating"}}), ""),
        (
            _seen({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}),
            "ImagePullBackOff: Back-off pulling image",
        ),
        (
            _seen(
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available: 1 Insufficient memory.",
                    }
                ]
            ),
            "no node can run it (Unschedulable): 0/1 nodes are available: 1 Insufficient memory.",
        ),
    ],
)
def test_the_reason_why_a_pod_waits_is_said(seen: SeenPod, words: str) -> None:
    assert pod_words.why_waiting(seen.pod) == words


def test_the_last_warning_about_an_object_is_the_reason() -> None:
    events = [
        ClusterEvent("Warning", "FailedCreate", "exceeded quota: jobs", "2026-01-01T00:00:02Z"),
        ClusterEvent("Warning", "FailedCreate", "older", "2026-01-01T00:00:01Z"),
        ClusterEvent("Normal", "SuccessfulCreate", "made", "2026-01-01T00:00:03Z"),
    ]
    assert pod_words.why_from_events(events) == "FailedCreate: exceeded quota: jobs"
