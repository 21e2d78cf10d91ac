"""Limits of jobs at places of the tree: which ones apply to a module."""

from collections.abc import Iterable

from terracrew.protocol.spec import JobLimits

_NO_LIMITS = JobLimits()


def applying(places: Iterable[JobLimits]) -> JobLimits:
    """Return the limits that apply to a job, from the limits of all places above it, the nearest place last.

    Of each limit the smallest applies: who is responsible for a group can rely on its limits, whatever modules below it say.
    The number of retries is a choice and not a limit, so the nearest place that has one decides.
    """
    found = _NO_LIMITS
    for each in places:
        if each == _NO_LIMITS:
            continue
        steps = {
            step: _smaller(found.step_seconds.get(step), each.step_seconds.get(step))
            for step in sorted(found.step_seconds.keys() | each.step_seconds.keys(), key=lambda step: step.number)
        }
        found = JobLimits(
            job_seconds=_smaller(found.job_seconds, each.job_seconds),
            step_seconds={step: seconds for step, seconds in steps.items() if seconds is not None},
            memory_mb=_smaller(found.memory_mb, each.memory_mb),
            processes=_smaller(found.processes, each.processes),
            plan_retries=found.plan_retries if each.plan_retries is None else each.plan_retries,
        )
    return found


def _smaller(first: int | None, second: int | None) -> int | None:
    return min((each for each in (first, second) if each is not None), default=None)
