"""Chooses any instance for a job, so that nothing but the claim itself decides who gets it."""

import asyncio
from collections.abc import Sequence

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.scheduling.queue import Waiting


class StaleChoice:
    """Stands for a scheduler whose view is arbitrarily old: it remembers every instance that ever had a credit, also one that drains or
    has disconnected since."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._sessions: list[RunnerSession] = []
        self._chosen: dict[str, RunnerSession] = {}
        self._turn = 0

    def reserve(self, jobs: Sequence[Waiting]) -> dict[str, RunnerSession]:
        known = {id(session) for session in self._sessions}
        with_credits = (each for each in self._registry.runners.values() if each.credits > 0)
        self._sessions += [each for each in with_credits if id(each) not in known]
        chosen: dict[str, RunnerSession] = {}
        for job in jobs if self._sessions else ():
            self._turn += 1
            chosen[job.id] = session = self._sessions[self._turn % len(self._sessions)]
            self._chosen[job.id] = session
            session.reserve(job.id)
        return chosen

    def enqueue(self, jobs: Sequence[Waiting]) -> None:
        """Do nothing: other claims are made at random."""

    def claimed(self, job_id: str) -> None:
        self._end(job_id, is_claimed=True)

    def unclaimed(self, job_id: str, *, is_refused: bool = True) -> None:
        self._end(job_id, is_claimed=False)

    def _end(self, job_id: str, *, is_claimed: bool) -> None:
        if session := self._chosen.pop(job_id, None):
            session.release(job_id, is_claimed=is_claimed)


class ChosenInstance:
    """Chooses one instance for one job, and learns whether it was claimed."""

    def __init__(self, session: RunnerSession, job_id: str) -> None:
        self._session = session
        self.is_claimed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        session.reserve(job_id)

    def claimed(self, job_id: str) -> None:
        self._end(job_id, is_claimed=True)

    def unclaimed(self, job_id: str) -> None:
        self._end(job_id, is_claimed=False)

    def _end(self, job_id: str, *, is_claimed: bool) -> None:
        self._session.release(job_id, is_claimed=is_claimed)
        if not self.is_claimed.done():
            self.is_claimed.set_result(is_claimed)
