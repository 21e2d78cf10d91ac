"""Chooses instances with standing claims for jobs that a transaction is creating, and keeps their slots until it has ended.

A job gets the instance that it would be offered to first, and only if it would be offered at once: nothing else of its line or of
its module waits, and no group above it is full. So nothing is decided here that an offer would decide in another way.
"""

from collections.abc import Sequence
from typing import NamedTuple

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.jobs.model import turn_in_module
from terracrew.server.scheduling.assignment_view import AssignmentView
from terracrew.server.scheduling.candidates import Candidates
from terracrew.server.scheduling.caps import Caps
from terracrew.server.scheduling.lines import WaitingLines
from terracrew.server.scheduling.module_queues import ModuleQueues
from terracrew.server.scheduling.queue import Waiting


class Reservation(NamedTuple):
    """A slot that a job has while the transaction that creates it is in progress."""

    job: Waiting
    session: RunnerSession
    is_ahead: bool
    """Whether it uses a standing claim."""


class Reservations:
    def __init__(
        self,
        registry: Registry,
        assigned: AssignmentView,
        candidates: Candidates,
        modules: ModuleQueues,
        lines: WaitingLines,
    ) -> None:
        self._registry = registry
        self._assigned, self._candidates, self._modules, self._lines = assigned, candidates, modules, lines
        self._held: dict[str, Reservation] = {}
        """By job."""

    @property
    def jobs(self) -> list[Waiting]:
        return [held.job for held in self._held.values()]

    def has(self, session: RunnerSession) -> bool:
        """Return whether a slot of an instance is reserved."""
        return any(held.session is session for held in self._held.values())

    def reserve(self, jobs: Sequence[Waiting], caps: Caps) -> dict[str, RunnerSession]:
        """Reserve a slot for each job that can be claimed at once. Returns the instances with standing claims, by job.

        The jobs are served in the order in which the lines would serve them. A job whose first instance has no standing claim
        gets its slot all the same, so that no other job takes the slot that this one is about to be offered.
        """
        lines, routes = WaitingLines(self._lines.turns), {job.id: self._assigned.route(job) for job in jobs}
        modules: set[str] = {held.job.module_id for held in self._held.values()}
        for job in sorted(jobs, key=turn_in_module):
            is_first = self._modules.head(job.module_id) is None and job.module_id not in self._modules.busy
            if is_first and job.module_id not in modules and self._lines.is_empty(routes[job.id]):
                modules.add(job.module_id)
                lines.push(job, routes[job.id])
        chosen: dict[str, RunnerSession] = {}
        for route in lines.in_turn(set(routes.values())):
            job = lines.pop(route)
            if job is None or caps.full_place(job):
                continue
            session = self._candidates.first(job, route)
            if session is None:
                continue
            caps.offer(job)
            lines.turns.take(job)
            session.offered.add(job.id)
            is_ahead = self._registry.has_standing_claim(session)
            self._held[job.id] = Reservation(job, session, is_ahead)
            if is_ahead:
                session.use_standing_claim()
                chosen[job.id] = session
        return chosen

    def release(self, job_id: str, *, is_claimed: bool) -> Reservation | None:
        """Forget the slot of a job. Returns what was kept. If the job was not claimed, the standing claim can be used again."""
        found = self._held.pop(job_id, None)
        if found is not None:
            found.session.offered.discard(job_id)
            if found.is_ahead and not is_claimed:
                found.session.restore_standing_claim()
        return found
