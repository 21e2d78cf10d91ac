"""Which jobs wait for runners that can be woken, as the scheduler's own lines have them."""

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from terracrew.server.scheduling.assignment_view import AssignedRunners, Route
from terracrew.server.scheduling.candidates import InstanceName
from terracrew.server.scheduling.caps import Caps
from terracrew.server.scheduling.queue import Waiting

MAX_COUNTED_JOBS = 2_000
"""The most jobs of one line that are counted at once: an organization starts far fewer instances in one round."""


class WakeDemand(msgspec.Struct, frozen=True):
    """Jobs of one line whose best tier has a runner that can be woken."""

    route: Route
    jobs: int
    runners: tuple[str, ...]
    """The runners of the tier: a free slot of any of them serves a job."""
    wakeable: tuple[str, ...]
    """Those of them that can be woken, in the order in which they are."""
    job_ids: tuple[str, ...] = ()
    """The jobs. One of them may have been claimed meanwhile: the database knows."""
    paused: frozenset[InstanceName] = frozenset()
    """The instances that could not start these jobs a short time ago: their free slots serve none of them."""


def count(
    waiting: Iterable[tuple[tuple[Route, frozenset[InstanceName]], Iterable[Waiting]]],
    claimed: Iterable[tuple[Route, Waiting]],
    best_tier: Callable[[Route], AssignedRunners | None],
    wakeable: set[str],
    caps: Caps,
) -> list[WakeDemand]:
    """Count the jobs that wait for runners that can be woken.

    `waiting` has the jobs of each line that their modules run next, with the instances that have paused these jobs; a job that
    is behind another one of its module, or waits for an approval, is in no line. `claimed` has the jobs that are being claimed:
    each of them takes a free slot. A job for which a group above it has no place is not counted, and neither is one that is
    pinned to the name of an instance.
    """
    found: dict[tuple[Route, frozenset[InstanceName]], set[str]] = {}
    for route, job in claimed:
        found.setdefault((route, frozenset()), set()).add(job.id)
    places: Counter[str] = Counter()
    for line, jobs in waiting:
        for number, job in enumerate(jobs):
            if number >= MAX_COUNTED_JOBS:
                break
            if caps.take_if_free(job, places):
                found.setdefault(line, set()).add(job.id)
    demands: list[WakeDemand] = []
    for (route, paused), jobs in found.items():
        tier = best_tier(route) if route.instance_name is None else None
        able = sorted(wakeable & tier.known) if tier is not None else []
        if tier is not None and able:
            demands.append(WakeDemand(route, len(jobs), tier.runners, tuple(able), tuple(jobs), paused))
    return demands
