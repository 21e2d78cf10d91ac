"""Jobs that this server does not offer for a while because no claim of them can succeed, and why."""

from collections.abc import Callable

RETRY_SECONDS = 60.0
"""After this time, a job is offered again: its state may have been replaced, or the other problem solved."""


class WithheldJobs:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, tuple[str, float]] = {}

    def add(self, job_id: str, reason: str) -> None:
        """Withhold a job whose claim failed for this reason."""
        now = self._clock()
        self._jobs = {known: each for known, each in self._jobs.items() if each[1] + RETRY_SECONDS > now}
        self._jobs[job_id] = reason, now + RETRY_SECONDS

    def is_withheld(self, job_id: str) -> bool:
        found = self._jobs.get(job_id)
        return found is not None and self._clock() < found[1]

    def reason(self, job_id: str) -> str:
        """Return why the last claim of this job failed; an empty text if it did not, or if that was long ago.

        Threads that read for a page call this, so the jobs are looked up once: another claim may replace them at any moment.
        """
        found = self._jobs.get(job_id)
        return "" if found is None else found[0]
