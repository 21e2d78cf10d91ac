"""Chooses instances for new jobs by their standing claims alone, so that nothing but the claim itself decides who gets a job."""

from collections.abc import Sequence

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.scheduling.queue import Waiting


class StaleChoice:
    """Remembers every instance that ever had a standing claim, also one that drains or has disconnected since."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._sessions: list[RunnerSession] = []
        self._turn = 0

    def takes_standing_claims(self) -> bool:
        known = {id(session) for session in self._sessions}
        standing = (each for each in self._registry.runners.values() if each.standing > 0)
        self._sessions += [each for each in standing if id(each) not in known]
        return bool(self._sessions)

    def reserve(self, jobs: Sequence[Waiting]) -> dict[str, RunnerSession]:
        chosen: dict[str, RunnerSession] = {}
        for job in jobs:
            self._turn += 1
            chosen[job.id] = session = self._sessions[self._turn % len(self._sessions)]
            session.use_standing_claim()
        return chosen

    def enqueue(self, jobs: Sequence[Waiting]) -> None:
        """Do nothing: other claims are made at random."""

    def release(self, job_id: str, *, is_claimed: bool) -> None:
        """Do nothing: the claim decides whether a slot is free."""
