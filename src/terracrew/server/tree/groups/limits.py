"""Limits of jobs at places of the tree: how they are changed, and which ones apply to a module."""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.protocol.spec import JobLimits, LimitMegabytes, LimitProcesses, LimitSeconds, PlanRetries, Step


class LimitsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which limits to change; what is left out stays, and null removes a limit."""

    job_seconds: LimitSeconds | UnsetType | None = UNSET
    """How long one attempt of a job may run. Waiting in the queue and for an approval is not counted."""
    step_seconds: dict[Step, LimitSeconds | None] = {}
    """How long a step may run, with its hooks: `{"plan": 600}`. Steps that are left out keep their limits."""
    memory_mb: LimitMegabytes | UnsetType | None = UNSET
    """How much memory the processes of an attempt may use together, in units of 1,048,576 bytes."""
    processes: LimitProcesses | UnsetType | None = UNSET
    """How many processes and threads an attempt may have at once. Without a limit of its own, it may have 5,000."""
    plan_retries: PlanRetries | UnsetType | None = UNSET
    """How often a step before the change is repeated after an error that may go away by itself, such as a registry that does not
    answer. A change is never repeated."""


_NO_LIMITS = JobLimits()


def changed(limits: JobLimits, wanted: LimitsChange) -> JobLimits:
    """Return the limits after a change."""
    given = {field: value for field in wanted.__struct_fields__ if (value := getattr(wanted, field)) is not UNSET}
    steps = limits.step_seconds | wanted.step_seconds
    ordered = sorted(steps, key=lambda step: step.number)
    given["step_seconds"] = {step: seconds for step in ordered if (seconds := steps[step]) is not None}
    return msgspec.structs.replace(limits, **given)


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
