"""The containers of one runner instance, as `docker` shows them: what tests look at and break."""

import json
import subprocess
from pathlib import Path
from typing import Any

from terracrew.runner.dispatch.docker.containers import LABEL, ContainerOwner


class Containers:
    def __init__(self, address: str, owner: ContainerOwner) -> None:
        self._docker, self.owner = ["docker", "--host", address], owner

    def run(self, *arguments: str) -> str:
        return subprocess.run([*self._docker, *arguments], check=True, capture_output=True, text=True).stdout

    def show(self, attempt: str) -> dict[str, Any] | None:
        """What the daemon knows of the container of an attempt; None if there is none."""
        found = subprocess.run(
            [*self._docker, "container", "inspect", self.owner.name(attempt)], capture_output=True, check=False
        )
        return json.loads(found.stdout)[0] if found.returncode == 0 else None

    def is_running(self, attempt: str) -> bool:
        return bool((shown := self.show(attempt)) and shown["State"]["Running"])

    def executor_pid(self, attempt: str) -> int:
        """The executor as this machine numbers it: the only child of the container's first process."""
        shown = self.show(attempt)
        assert shown
        first = shown["State"]["Pid"]
        return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])

    def names(self) -> list[str]:
        """The containers and the volumes of this instance."""
        mine = ["--quiet", "--filter", f"label={LABEL}.key={self.owner.key}"]
        names = self.run("ps", "--all", *mine).split()
        return names + self.run("volume", "ls", *mine).split()

    def remove_all(self) -> None:
        mine = ["--quiet", "--filter", f"label={LABEL}.key={self.owner.key}"]
        if found := self.run("ps", "--all", *mine).split():
            self.run("rm", "--force", *found)
        if found := self.run("volume", "ls", *mine).split():
            self.run("volume", "rm", "--force", *found)
