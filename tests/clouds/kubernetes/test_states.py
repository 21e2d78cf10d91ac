"""What the states of pods mean for instances, in words."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from terracrew.clouds.kubernetes import names, states
from terracrew.kubernetes_api.objects import ClusterEvent, Pod

MADE = "2026-01-01T00:00:00Z"


def _pod(state: dict[str, Any] | None = None, *, node: str | None = "node", **fields: Any) -> Pod:
    metadata = {
        "name": "tc-1",
        "uid": "u",
        "creationTimestamp": MADE,
        "annotations": {names.INSTANCE_ANNOTATION: "tc-1"},
    }
    status = {k: v for k, v in fields.items() if k != "deletionTimestamp"}
    if state is not None:
        status["containerStatuses"] = [{"name": names.CONTAINER, "state": state}]
    metadata |= {k: v for k, v in fields.items() if k == "deletionTimestamp"}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod)


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


@pytest.mark.parametrize(
    ("pod", "phase", "words"),
    [
        (_pod(node=None, phase="Pending"), "starting", "waiting for a node"),
        (
            _pod(node=None, phase="Pending", conditions=[UNSCHEDULABLE]),
            "starting",
            "no node can run it (Unschedulable): 0/3 nodes are available: 3 Insufficient cpu.",
        ),
        (_pod({"waiting": {"reason": "ContainerCreating"}}, phase="Pending"), "starting", "starting the container"),
        (
            _pod({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}, phase="Pending"),
            "starting",
            "the image cannot be pulled: ImagePullBackOff: Back-off pulling image",
        ),
        (_pod({"running": {"startedAt": MADE}}, phase="Running"), "running", ""),
        (_pod({"running": {"startedAt": MADE}}, phase="Unknown"), "running", "its node does not answer"),
        (
            _pod({"running": {"startedAt": MADE}}, phase="Running", deletionTimestamp=MADE),
            "running",
            "the pod was deleted by somebody else",
        ),
        (_pod({"terminated": {"exitCode": 0}}, phase="Succeeded"), "ended", "it left by itself"),
        (_pod({"terminated": {"exitCode": 2}}, phase="Running"), "ended", "it ended with exit code 2"),
        (_pod({"terminated": {"exitCode": 137}}, phase="Failed"), "ended", "it was ended by signal 9"),
        (
            _pod({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed"),
            "ended",
            "it was killed because memory ran out: choose a larger size",
        ),
        (
            _pod({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file"}}, phase="Failed"),
            "ended",
            "the container cannot be started: no such file",
        ),
        (
            _pod(phase="Failed", reason="Evicted", message="The node was low on memory."),
            "ended",
            "the pod was evicted: The node was low on memory.",
        ),
        (_pod(phase="Failed", reason="NodeLost"), "ended", "the pod failed (NodeLost): Kubernetes says nothing more"),
    ],
)
def test_the_state_of_a_pod_in_words(pod: Pod, phase: str, words: str) -> None:
    found = states.state_of(pod, "ns/tc-1")
    assert (found.instance, found.reference, found.phase, found.words) == ("tc-1", "ns/tc-1", phase, words)
    assert (states.ended_at(pod) is not None) == (phase == "ended")
    assert states.is_starting(pod) == (phase == "starting")


def test_a_pod_whose_node_pulls_the_image_says_so_until_it_has_it() -> None:
    pod = _pod({"waiting": {"reason": "ContainerCreating"}}, phase="Pending")
    pulling, pulled = ClusterEvent("Normal", "Pulling"), ClusterEvent("Normal", "Pulled")
    assert states.state_of(pod, "ns/tc-1", [pulling]).words == "pulling the image"
    assert states.state_of(pod, "ns/tc-1", [pulling, pulled]).words == "starting the container"
    failed = ClusterEvent("Warning", "FailedMount", 'secret "terracrew-1" not found')
    assert states.state_of(pod, "ns/tc-1", [failed]).words == 'FailedMount: secret "terracrew-1" not found'


def test_the_last_lines_of_an_instance_cannot_steer_a_terminal() -> None:
    ended = _pod({"terminated": {"exitCode": 1, "finishedAt": MADE, "message": "a\nb"}}, phase="Failed")
    state = states.with_lines(states.state_of(ended, "ns/tc-1"), ["\x1b[2Jcleared", "x" * 10_000])
    assert state.last_lines[0] == "cleared"
    assert len(state.last_lines[1]) == 500
    assert states.last_words(ended) == ["a", "b"]
    assert states.ended_at(ended) == datetime(2026, 1, 1, tzinfo=UTC)
