"""A simulated day: the services of the server, the reaper and the clock of the stateful test, for 24 hours on one database.

    python -m tests.chaos.day --hours 24 --seed 1 --database sqlite

A chaos run is too short to wait for an `apply_lease` of 30 minutes often enough, and cannot accelerate monotonic clocks.
Here the clock of the database and of the servers is a number that the test moves, with a heartbeat every 12 s of it. The
services, the decisions, the reaper and the database are the real ones; hosts, executors and engines are models. So this
proves that leases, approvals and waits end when they should over a whole day, and that no rule breaks on the way. It proves
nothing about the timing of real processes.
"""

import argparse
import asyncio
import contextlib
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from unittest import mock

import msgspec

from terracrew.protocol.spec import JobType
from terracrew.server.db import availability
from terracrew.server.hub.runners import ended_attempts, takeover
from terracrew.server.jobs import decide
from tests.chaos.database import Postgres
from tests.stateful.happenings import HAPPENINGS, Happening
from tests.stateful.simulation import Simulation

HOUR_SECONDS = 3600.0
_WAITS_SECONDS = (5, 5, 20, 60, 60, 300, 900)
LEASE_SECONDS = decide.APPLY_LEASE.total_seconds()
_PAST_LEASE_SECONDS = 2_400
"""Longer than a lease and the time in which the reaper of the model must have looked."""
_LOSSES_PER_HOUR = 1.0
_NATURAL_STEPS = 10
_LEFT_OUT = frozenset({"time_passes", "runner_is_removed"})
"""The first may let eight days pass at once, and here the day passes in smaller parts. After the second a host is never
seen again, and soon there would be none."""


class Lived(msgspec.Struct, frozen=True):
    """What happened during the day."""

    hours: float
    happenings: Counter[str]
    outcomes: Counter[str]
    leases: int
    """How many attempts were given up because their lease ran out, not by a person."""
    shortest_lease_seconds: float
    """The shortest time from a loss to such an end."""


async def live(url: str, hours: float, seed: int) -> Lived:
    """Simulate the day; raises if a rule is broken. At the end all hosts are lost and come back, and every job must end."""
    rng = random.Random(seed)
    simulation = await Simulation.make(url)
    try:
        happened = await _pass(simulation, hours, rng)
        await simulation.all_die()
        await simulation.all_ends()
        leases = [seconds for seconds in _lease_seconds(simulation) if seconds >= LEASE_SECONDS]
        return Lived(hours, happened, simulation.summary(), len(leases), min(leases, default=0.0))
    finally:
        await simulation.close()


async def _pass(simulation: Simulation, hours: float, rng: random.Random) -> Counter[str]:
    names = [each for each in HAPPENINGS if each.__name__ not in _LEFT_OUT]
    weights = [HAPPENINGS[each] for each in names]
    happened: Counter[str] = Counter()
    for host in simulation.crew.hosts:
        await host.connect()
    await simulation.create(simulation.modules[0], JobType.APPLY, needs_approval=False)
    await simulation.check()
    end = simulation.site.clock.now + hours * HOUR_SECONDS
    while simulation.site.clock.now < end:
        began = simulation.site.clock.now
        happened[await _one(simulation, names, weights, rng)] += 1
        await simulation.check()
        await _go_on(simulation, rng)
        await simulation.wait(rng.choice(_WAITS_SECONDS), is_watched=rng.random() < 0.9)
        await simulation.check()
        passed_hours = (simulation.site.clock.now - began) / HOUR_SECONDS
        is_due = not happened["a lease runs out"] or rng.random() < _LOSSES_PER_HOUR * passed_hours
        if is_due and await _lose_one(simulation, rng):
            happened["a lease runs out"] += 1
    return happened


async def _lose_one(simulation: Simulation, rng: random.Random) -> bool:
    """Lose a host in the middle of a change. No person reacts, so the lease expires by itself."""
    for _ in range(200):
        changing = [each for each in simulation.crew.executors.values() if each.process == "alive" and each.is_mutating]
        current = [each for each in changing if simulation.now.jobs[each.ref.job_id].attempt == each.ref.attempt]
        if current:
            break
        await _go_on(simulation, rng)
        simulation.site.clock.now += 1
        await simulation.site.loops()
    else:
        return False
    executor = rng.choice(current)
    await executor.host.lose_power()
    await simulation.wait(_PAST_LEASE_SECONDS, is_watched=True)
    await simulation.check()
    attempt = simulation.now.attempts[executor.ref]
    assert attempt.ended_at is not None, f"{executor.name} was lost {_PAST_LEASE_SECONDS} s ago and holds its lock"
    executor.host.come_back(is_disk_empty=rng.random() < 0.5)
    return True


async def _one(simulation: Simulation, names: list[Happening], weights: list[int], rng: random.Random) -> str:
    while True:
        happening = rng.choices(names, weights)[0]
        work = happening(simulation, rng)
        if work is not None:
            await work
            return happening.__name__


async def _go_on(simulation: Simulation, rng: random.Random) -> None:
    for _ in range(rng.randrange(_NATURAL_STEPS)):
        if actions := simulation.natural():
            await rng.choice(actions)[1]()
            await simulation.check(with_reasons=False)


def _lease_seconds(simulation: Simulation) -> list[float]:
    """Return for how long each attempt that was given up after a loss had been lost."""
    return [
        (each.ended_at - each.lost_at) / timedelta(seconds=1)
        for each in simulation.now.attempts.values()
        if each.lost_at is not None and each.ended_at is not None and each.outcome == "lost"
    ]


@contextlib.contextmanager
def impatient() -> Generator[None]:
    """No code waits by the wall clock, and the log is not written."""
    logging.getLogger("terracrew").setLevel(logging.CRITICAL)
    try:
        with (
            mock.patch.object(availability, "RETRY_PAUSES_SECONDS", (0.0,) * 5),
            mock.patch.object(ended_attempts, "LEAVING_SECONDS", 0.1),
            mock.patch.object(takeover, "ANSWER_TIMEOUT_SECONDS", 0.0),
        ):
            yield
    finally:
        logging.getLogger("terracrew").setLevel(logging.NOTSET)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.day", description="Live a simulated day.")
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["postgres", "sqlite"], default="sqlite")
    given = parser.parse_args()
    with impatient(), tempfile.TemporaryDirectory(prefix="terracrew-day-") as folder, contextlib.ExitStack() as stack:
        url = f"sqlite:///{Path(folder) / 'terracrew.db'}"
        if given.database == "postgres":
            postgres = Postgres()
            stack.callback(postgres.remove)
            postgres.start()
            postgres.wait()
            url = postgres.url
        lived = asyncio.run(live(url, given.hours, given.seed))
    print(f"{lived.hours:g} hours, {lived.happenings.total()} happenings; no rule was broken")
    print(f"{lived.leases} leases ran out, after {lived.shortest_lease_seconds:.0f} s or more")
    for counted in (lived.happenings, lived.outcomes):
        print(", ".join(f"{count} {what}" for what, count in sorted(counted.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
