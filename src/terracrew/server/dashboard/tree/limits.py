"""The fields for limits in the forms of groups and modules: what was typed, and the change that it asks for."""

import re

import msgspec

from terracrew.api.place_settings import LimitsChange
from terracrew.errors import Invalid
from terracrew.protocol.spec import MAX_LIMIT_SECONDS, JobLimits, Step
from terracrew.server.dashboard import forms
from terracrew.wording import durations

_BETWEEN_STEPS = re.compile(r"[,\s]+")
_FIELDS = {"job_seconds": "job_time", "step_seconds": "step_times"}
"""The fields of the form that have another name than those of the limits, because durations are typed with a unit."""


class LimitsFields(msgspec.Struct, frozen=True, kw_only=True):
    """The values as they were typed. An empty one sets no limit."""

    job_time: str = ""
    step_times: str = ""
    memory_mb: str = ""
    processes: str = ""
    plan_retries: str = ""


def to_form(limits: JobLimits) -> LimitsFields:
    """Return limits as the fields show them."""
    steps = ", ".join(f"{step}={durations.written(seconds)}" for step, seconds in limits.step_seconds.items())
    return LimitsFields(
        job_time="" if limits.job_seconds is None else durations.written(limits.job_seconds),
        step_times=steps,
        memory_mb="" if limits.memory_mb is None else str(limits.memory_mb),
        processes="" if limits.processes is None else str(limits.processes),
        plan_retries="" if limits.plan_retries is None else str(limits.plan_retries),
    )


def from_form(fields: LimitsFields) -> LimitsChange:
    """Return the change that makes the limits of a place what the fields say."""
    values = {
        "job_seconds": _seconds("job_time", fields.job_time) if fields.job_time.strip() else None,
        "step_seconds": dict.fromkeys(map(str, Step)) | _steps(fields.step_times),
        "memory_mb": fields.memory_mb.strip() or None,
        "processes": fields.processes.strip() or None,
        "plan_retries": fields.plan_retries.strip() or None,
    }
    return forms.convert(values, LimitsChange, _FIELDS)


def _steps(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in filter(None, _BETWEEN_STEPS.split(text.strip())):
        step, separator, value = each.partition("=")
        if step not in list(Step):
            raise Invalid(f"{step!r} is not a step: write plan=10m, with one of {', '.join(Step)}", field="step_times")
        if not separator:
            raise Invalid(f"write {step}=10m to set a limit of 10 minutes", field="step_times")
        found[step] = _seconds("step_times", value)
    return found


def _seconds(field: str, text: str) -> int:
    seconds = durations.parse(text)
    if seconds is None:
        raise Invalid(f"{text.strip()!r} is not a duration: write 90s, 30m, 24h or 7d", field=field)
    if not 1 <= seconds <= MAX_LIMIT_SECONDS:
        raise Invalid(f"a limit is between 1s and {durations.written(MAX_LIMIT_SECONDS)}", field=field)
    return seconds
