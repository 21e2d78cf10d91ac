"""The list of everything that may happen, each with a weight, and what a happening chooses from."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from terracrew.protocol.spec import JobType
from tests.stateful.simulated_executor import Executor
from tests.stateful.simulated_runners import Host
from tests.stateful.simulation import Simulation

Happening = Callable[[Simulation, Random], Awaitable[object] | None]
HAPPENINGS: dict[Happening, int] = {}
"""None: it cannot happen now."""
KINDS = (JobType.APPLY, JobType.APPLY, JobType.APPLY, JobType.DESTROY, JobType.PLAN)


def weight(count: int) -> Callable[[Happening], Happening]:
    def note(happening: Happening) -> Happening:
        HAPPENINGS[happening] = count
        return happening

    return note


def choose(random: Random, things: list[Any]) -> Any:
    return random.choice(things) if things else None


def connected(simulation: Simulation) -> list[Executor]:
    return [each for each in simulation.crew.executors.values() if each.link is not None and each.link.is_open]


def alive(simulation: Simulation) -> list[Executor]:
    return [each for each in simulation.crew.executors.values() if each.process == "alive"]


def hosts(simulation: Simulation) -> list[Host]:
    return [host for host in simulation.crew.hosts if host.is_connected]
