"""The Jobs and pods of one runner instance, as the cluster shows them: what tests look at and break."""

import json
from pathlib import Path
from typing import Any

from terracrew.runner.dispatch.kubernetes.manifests import ATTEMPT, PodOwner
from tests.machine.platforms.kubernetes import Cluster


class Pods:
    def __init__(self, cluster: Cluster, namespace: str, owner: PodOwner) -> None:
        self.cluster, self.namespace, self.owner = cluster, namespace, owner

    def of(self, attempt: str) -> list[dict[str, Any]]:
        return self.cluster.get(self.namespace, "pods", "--selector", f"{self.owner.selector},{ATTEMPT}={attempt}")[
            "items"
        ]

    def the(self, attempt: str) -> dict[str, Any]:
        [pod] = self.of(attempt)
        return pod

    def name(self, attempt: str) -> str:
        return self.the(attempt)["metadata"]["name"]

    def is_running(self, attempt: str) -> bool:
        """Whether a container of this attempt has a process, as its node says."""
        return any(self._first_process(pod) for pod in self.of(attempt))

    def first_process(self, attempt: str) -> int:
        """The first process of the container as this machine numbers it."""
        return self.cluster.wait("first process", lambda: self._first_process(self.the(attempt)))

    def executor_pid(self, attempt: str) -> int:
        """The executor as this machine numbers it: the only child of the container's first process."""
        first = self.first_process(attempt)
        return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])

    def names(self) -> list[str]:
        """The Jobs and Secrets of this instance."""
        return self.kubectl("get", "jobs,secrets", "--selector", self.owner.selector, "--output", "name").split()

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)

    def evict(self, attempt: str) -> None:
        """Ask for an eviction, as `kubectl drain` does."""
        name = self.name(attempt)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/eviction"
        self.cluster.kubectl("create", "--raw", path, "--filename", "-", text=json.dumps(body))

    def _first_process(self, pod: dict[str, Any]) -> int | None:
        for status in pod["status"].get("containerStatuses", []):
            container = status.get("containerID", "").removeprefix("containerd://")
            for entry in Path("/proc").iterdir() if container else ():
                if entry.name.isdecimal() and _is_first_of(entry, container):
                    return int(entry.name)
        return None


def _is_first_of(process: Path, container: str) -> bool:
    """Return whether a living process is the first one of this container. Its own number there is 1."""
    try:
        status = (process / "status").read_text()
        is_inside = container in (process / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
    return is_inside and numbers[-1] == "1" and "State:\tZ" not in status
