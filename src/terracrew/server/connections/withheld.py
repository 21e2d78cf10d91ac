"""Jobs that this server does not claim for a while because no claim of them can succeed, and why."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from terracrew.errors import Damaged
from terracrew.logging import get_logger

log = get_logger("terracrew.scheduler")

RETRY_SECONDS = 60.0
"""After this time, a job is claimed again: its state may have been replaced, or the other problem solved."""


class Withheld(NamedTuple):
    problem: str
    is_damaged: bool
    """Whether a row cannot be read. Otherwise something cannot be decrypted."""


class WithheldJobs:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, tuple[Withheld, float]] = {}

    def add(self, job_id: str, reason: str, *, is_damaged: bool = False) -> None:
        """Withhold a job whose claim failed for this reason, or would fail."""
        now = self._clock()
        self._jobs = {known: each for known, each in self._jobs.items() if each[1] + RETRY_SECONDS > now}
        self._jobs[job_id] = Withheld(reason, is_damaged), now + RETRY_SECONDS

    def add_damaged(self, jobs: Mapping[str, Damaged]) -> None:
        """Withhold queued jobs whose rows cannot be read, and log each of them once in that time."""
        for job_id, error in jobs.items():
            if not self.is_withheld(job_id):
                log.warning("a queued job cannot be claimed; the others are", job=job_id, reason=error.message)
                self.add(job_id, error.message, is_damaged=True)

    def is_withheld(self, job_id: str) -> bool:
        found = self._jobs.get(job_id)
        return found is not None and self._clock() < found[1]

    def reason(self, job_id: str) -> Withheld | None:
        """Return why the last claim of this job failed; None if it did not, or if that was long ago.

        Threads that read for a page call this, so the jobs are looked up once: another claim may replace them at any moment.
        """
        found = self._jobs.get(job_id)
        return None if found is None else found[0]
