"""Jobs that this server does not claim for a while because no claim of them can succeed, and what single instances do not want to
start for a moment, because they could not."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from terracrew.errors import Damaged
from terracrew.logging import get_logger
from terracrew.protocol.dispatcher_choice import DispatcherChoice

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


MAX_PAUSE_SECONDS = 600.0
_MAX_PAUSES = 1_000


class StartPauses:
    """Time is a parameter (monotonic seconds). A pause is kept for one connection: a new one tries again."""

    def __init__(self) -> None:
        self._until: dict[str | DispatcherChoice, float] = {}
        """By job, or by what jobs ask for, with the name of the dispatcher."""

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, what: str | DispatcherChoice, seconds: float, now: float) -> None:
        if not seconds > 0:
            return
        self._until = {each: until for each, until in self._until.items() if until > now}
        if len(self._until) < _MAX_PAUSES:  # the others cost an attempt that fails
            self._until[what] = now + min(seconds, MAX_PAUSE_SECONDS)

    def has(self, what: str | DispatcherChoice, now: float) -> bool:
        return self.seconds_left(what, now) > 0

    def seconds_left(self, what: str | DispatcherChoice, now: float) -> float:
        return max(0.0, self._until.get(what, -math.inf) - now)
