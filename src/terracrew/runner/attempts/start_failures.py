"""Decides for how long a job that could not be started here is left to others, and with it all jobs that ask the same of a dispatcher.

A job that cannot be started must use up neither an attempt every few seconds nor the turns of others. If different jobs fail in a
row that ask for the same, the obstacle is probably what they ask for, such as an image that does not exist any more.
"""

from collections import OrderedDict
from typing import NamedTuple

from terracrew.protocol.dispatcher_choice import DispatcherChoice

FIRST_PAUSE_SECONDS = 5.0
MAX_JOB_PAUSE_SECONDS = 600.0
MAX_CHOICE_PAUSE_SECONDS = 60.0
_MAX_DOUBLINGS = 8
_MAX_REMEMBERED = 256


class StartPause(NamedTuple):
    job_seconds: float
    choice_seconds: float
    """For every job that asks the same of a dispatcher."""


class StartFailures:
    def __init__(self) -> None:
        self._jobs: OrderedDict[str, int] = OrderedDict()
        """How often each job failed in a row."""
        self._choices: OrderedDict[DispatcherChoice, set[str]] = OrderedDict()
        """The jobs that failed since the last one that asked for the same was started."""

    def failed(self, job_id: str, choice: DispatcherChoice) -> StartPause:
        """Note that a job could not be started."""
        failures = min(self._jobs.pop(job_id, 0) + 1, _MAX_DOUBLINGS)
        self._jobs[job_id] = failures
        jobs = self._choices.pop(choice, set())
        if len(jobs) < _MAX_DOUBLINGS:
            jobs.add(job_id)
        self._choices[choice] = jobs
        for known in (self._jobs, self._choices):
            while len(known) > _MAX_REMEMBERED:
                known.popitem(last=False)
        is_known_to_fail = failures > 1 and len(jobs) == 1  # it says nothing about other jobs
        return StartPause(
            _pause(failures, MAX_JOB_PAUSE_SECONDS),
            0.0 if is_known_to_fail else _pause(len(jobs), MAX_CHOICE_PAUSE_SECONDS),
        )

    def started(self, job_id: str, choice: DispatcherChoice) -> None:
        """Note that a process of a job existed."""
        self._jobs.pop(job_id, None)
        self._choices.pop(choice, None)


def _pause(failures: int, longest: float) -> float:
    return min(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), longest)
