"""The jobs that are being claimed for instances of this server, each with the slot and the credit that it holds until that is decided.

`choose` finds instances for jobs that a transaction is creating. A job gets the instance that the scheduler would choose for it, and
only if the scheduler would choose at once: nothing else of its line or of its module waits, and no group above it is full.
"""

from collections.abc import Sequence
from typing import NamedTuple

from terracrew.server.connections.registry import RunnerSession
from terracrew.server.jobs.queue_reads import turn_in_module
from terracrew.server.scheduling.assignment_view import AssignmentView, Route
from terracrew.server.scheduling.candidates import Candidates
from terracrew.server.scheduling.caps import Caps
from terracrew.server.scheduling.lines import WaitingLines
from terracrew.server.scheduling.queue import ModuleQueues, Waiting


class Reservation(NamedTuple):
    """A job that is being claimed for an instance."""

    job: Waiting
    route: Route
    session: RunnerSession


class Reservations:
    def __init__(
        self, assigned: AssignmentView, candidates: Candidates, modules: ModuleQueues, lines: WaitingLines
    ) -> None:
        self._assigned, self._candidates, self._modules, self._lines = assigned, candidates, modules, lines
        self._held: dict[str, Reservation] = {}
        """By job."""

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._held

    @property
    def jobs(self) -> list[Waiting]:
        return [held.job for held in self._held.values()]

    @property
    def routes(self) -> list[tuple[Route, Waiting]]:
        """The jobs, each with its line."""
        return [(held.route, held.job) for held in self._held.values()]

    def add(self, job: Waiting, route: Route, session: RunnerSession, caps: Caps) -> None:
        """Keep a slot and a credit of an instance for a job, and its place in the groups above it."""
        caps.reserve(job)
        self._lines.turns.take(job)
        session.reserve(job.id)
        self._held[job.id] = Reservation(job, route, session)

    def choose(self, jobs: Sequence[Waiting], caps: Caps) -> dict[str, RunnerSession]:
        """Reserve a slot for each of these new jobs that can be claimed at once. Returns their instances, by job.

        The jobs are served in the order in which the lines would serve them.
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
            if session := self._candidates.first(job, route):
                self.add(job, route, session, caps)
                chosen[job.id] = session
        return chosen

    def release(self, job_id: str, *, is_claimed: bool) -> Reservation | None:
        """End the reservation of a job, whose claim is decided. Returns what was kept."""
        found = self._held.pop(job_id, None)
        if found is not None:
            found.session.release(job_id, is_claimed=is_claimed)
        return found
