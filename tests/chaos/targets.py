"""What faults choose from: the hosts and servers that no fault affects yet, and how long a fault lasts."""

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.chaos import hosts
from tests.chaos.installation import Installation, Process

Undo = Callable[[], "Struck | None"]
"""Ends a fault, or begins its next stage."""
Fault = Callable[[], "Struck | None"]
"""Strikes; None where there is nothing to hit just now."""


class Struck(NamedTuple):
    """What a fault hit, what undoes it, and after how many seconds."""

    target: str
    attempts: tuple[str, ...]
    seconds: float
    undo: Undo
    stage: str = ""
    """The name of a later stage of a fault; empty for the first one."""


class Targets:
    def __init__(self, site: Installation, rng: random.Random) -> None:
        self.site, self.random = site, rng
        self.busy: set[str] = set()
        """What already suffers from a fault: a second one of the same kind would only undo the first."""

    def seconds(self, least: float, most: float) -> float:
        # Short ones are more frequent, and tell more about races; long ones pass the thresholds.
        return (least + (most - least) * self.random.random() ** 2) * self.site.plan.longest / 90

    def idle(self, names: list[str]) -> str | None:
        """Return a target without a fault, preferably one that runs something."""
        free = [name for name in names if name not in self.busy]
        working = {one.host for one in self.site.members() if one.attempt}
        better = [name for name in free if name in working] or free
        return self.random.choice(better if self.random.random() < 0.7 else free) if free else None

    def running_host(self) -> str | None:
        """A host whose runner runs. It is busy from now on."""
        host = self.idle([name for name, runner in self.site.runners.items() if runner.is_wanted])
        if host:
            self.busy.add(host)
        return host

    def running_server(self) -> Process | None:
        """Return a server without a fault and mark it as busy."""
        name = self.idle([name for name, server in self.site.servers.items() if server.is_wanted])
        if name is None:
            return None
        self.busy.add(name)
        return self.site.servers[name]

    def start_again(self, process: Process) -> Undo:
        def start() -> None:
            self.busy.discard(process.name)
            process.start()

        return start

    def on(self, host: str) -> tuple[str, ...]:
        """The attempts of a host."""
        return hosts.attempts(list(hosts.on(self.site.members(), host)))

    def everywhere(self) -> tuple[str, ...]:
        return hosts.attempts(self.site.members())


def nothing() -> None:
    """Do nothing: a killed process is started again by its supervisor."""
