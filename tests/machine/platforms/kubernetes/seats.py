"""Something of which the node of a cluster has only a few, so that tests can fill the node without filling the machine."""

import contextlib
import json
from collections.abc import Generator
from typing import Any

from tests.machine.platforms.kubernetes.cluster import Cluster
from tests.machine.platforms.kubernetes.commands import NODE
from tests.machine.platforms.kubernetes.files import PAUSE_IMAGE

_OCCUPANT = "occupant"


class Seats:
    """A resource that only the pods of one namespace ask for."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self.resource = f"terracrew.test/{namespace}"
        self._class = f"urgent-{namespace}"

    def template(self, **spec: Any) -> dict[str, Any]:
        """Return a pod template whose executor asks for one seat."""
        executor = {"name": "executor", "resources": {"limits": {self.resource: "1"}}}
        return {"spec": {**spec, "containers": [executor]}}

    def occupy(self, *, is_urgent: bool = False) -> None:
        """Start a pod that asks for one seat. An urgent one takes it from another pod."""
        container = {
            "name": "sits",
            "image": PAUSE_IMAGE,
            "imagePullPolicy": "Never",
            "resources": {"limits": {self.resource: "1"}},
        }
        spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 1}
        if is_urgent:
            spec["priorityClassName"] = self._class
        metadata = {"name": _OCCUPANT}
        self._cluster.apply(self._namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def is_occupied(self) -> bool:
        """Whether the pod of `occupy` runs."""
        return self._cluster.get(self._namespace, "pod", _OCCUPANT)["status"].get("phase") == "Running"

    def free(self) -> None:
        self._cluster.kubectl("delete", "pod", _OCCUPANT, "--namespace", self._namespace, "--grace-period=1")

    def make_class(self) -> None:
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": self._class}}
        self._cluster.apply("default", made | {"value": 1000})

    def remove_class(self) -> None:
        self._cluster.is_done("delete", "priorityclass", self._class)

    def offer(self, count: int | None) -> None:
        """Let the node have this many seats; None takes them away."""
        amount = {self.resource: None if count is None else str(count)}
        patch = json.dumps({"status": {"capacity": amount, "allocatable": amount}})
        self._cluster.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "--patch", patch)


@contextlib.contextmanager
def seats(cluster: Cluster, namespace: str, count: int = 1) -> Generator[Seats]:
    """Give the node this many seats for the pods of a namespace, and a priority class for urgent pods."""
    made = Seats(cluster, namespace)
    made.offer(count)
    made.make_class()
    try:
        yield made
    finally:
        made.remove_class()
        made.offer(None)
