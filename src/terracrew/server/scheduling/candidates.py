"""Finds the connected instances that could take a job now: those of its nearest available tier that lack nothing."""

import random
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.engines.model import resolve
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.scheduling import select
from terracrew.server.scheduling.assignment_view import AssignedRunners, AssignmentView, Route
from terracrew.server.scheduling.online import OnlineRunners
from terracrew.server.scheduling.queue import Waiting

MAX_REFUSED_CLAIMS = 8
"""After this many refused claims, a job waits for the next sweep: what keeps it from running is probably not an instance."""
MAX_COMPARED_INSTANCES = 8
"""A job goes to the freest of this many instances: checking all of them costs more than the better balance is worth."""

InstanceName: TypeAlias = tuple[str, str]
"""The runner of an instance and its name there."""


class Candidates:
    def __init__(
        self, registry: Registry, assigned: AssignmentView, online: OnlineRunners, precedence: Precedence
    ) -> None:
        self._registry, self._assigned, self._online = registry, assigned, online
        self._precedence: Precedence = precedence

        self._refused: dict[str, set[str]] = {}
        """The instances for which the claim of a job was refused since the last sweep, by job. Something that this server believes
        of them or of the job is wrong, and the next sweep reads it."""

    @property
    def refused(self) -> set[str]:
        """The jobs whose claims were refused since the last sweep."""
        return set(self._refused)

    def refuse(self, job_id: str, session: RunnerSession) -> None:
        """Do not choose this instance for this job again before the next sweep, and nobody if many claims of it were refused."""
        self._refused.setdefault(job_id, set()).add(session.instance_id)

    def forget_refusals(self) -> None:
        self._refused = {}

    def of(self, route: Route, job: Waiting | None = None) -> Iterator[RunnerSession]:
        """Yield the instances of the best tier that could take a job now, starting at a random one.

        Without a job, one that could not start a certain job is among them.
        """
        if job is not None and len(self._refused.get(job.id, ())) >= MAX_REFUSED_CLAIMS:
            return
        tier = self.best_tier(route)
        if tier is None:
            return
        here = self._registry.of_runner
        runners = [each for each in here if each in tier.known] if len(here) < len(tier.runners) else tier.runners
        start = random.randrange(len(runners)) if runners else 0  # noqa: S311 - spreads load, guards nothing
        for index in range(len(runners)):
            for session in here.get(runners[(start + index) % len(runners)], {}).values():
                if self._can_take(session, route, job):
                    yield session

    def first(self, job: Waiting, route: Route) -> RunnerSession | None:
        """Return the instance that gets the job first: the one that made its plan, or the freest of a few."""
        maker = self._registry.runners.get(job.made_by or "")
        if maker is not None and maker.runner_id == route.runner_id and self._can_take(maker, route, job):
            return maker
        return max(islice(self.of(route, job), MAX_COMPARED_INSTANCES), key=_preference, default=None)

    def _can_take(self, session: RunnerSession, route: Route, job: Waiting | None) -> bool:
        """Return whether an instance could take this job now, or some job of its line."""
        if select.lacks(route, session) is not None or self._registry.may_hang(session):
            return False
        if job is not None and job.has_merge and not session.knows_merge_results:
            return False
        is_refused = job is not None and session.instance_id in self._refused.get(job.id, ())
        return not is_refused and not _has_paused(session, route, job)

    @property
    def pausing(self) -> list[RunnerSession]:
        """The instances that could not start something a short time ago."""
        return [each for each in self._registry.runners.values() if each.pauses]

    def best_tier(self, route: Route) -> AssignedRunners | None:
        """Return the nearest tier that is available, even if it is full; None if there is none."""
        required = select.requirement(route, self._precedence)
        name = route.instance_name if required == "online_with_name" else None
        tiers = self._assigned.tiers(route)
        return next((each for each in tiers if required == "assigned" or self._online.has_one_of(each, name)), None)


def _preference(session: RunnerSession) -> tuple[bool, int, float]:
    """Return the sort key of an instance for a job; the highest gets it.

    The freest one has the most to spare. Of those that leave when they are idle, the fullest one comes first, then the one that had
    a job last: otherwise a few jobs would keep all of them busy in turn, and none would ever leave.
    """
    return (False, -session.free, session.used_at) if session.may_leave else (True, session.free, 0.0)


def paused(pausing: Iterable[RunnerSession], route: Route, job: Waiting | None = None) -> frozenset[InstanceName]:
    """Return those of these instances that could not start this job, or any of its line, a short time ago."""
    return frozenset((each.runner_id, each.name) for each in pausing if _has_paused(each, route, job))


def _has_paused(session: RunnerSession, route: Route, job: Waiting | None) -> bool:
    """Return whether an instance could not start this job, or one that asks for the same, a short time ago."""
    if not session.pauses:
        return False
    now = time.monotonic()
    found = resolve(session.engines, route.engine, route.engine_version, route.choice)
    choice = msgspec.structs.replace(route.choice, name=(found.dispatcher if found else "") or None)
    return session.pauses.has(choice, now) or (job is not None and session.pauses.has(job.id, now))
