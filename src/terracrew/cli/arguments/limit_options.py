"""Options that limit how long jobs run and what they use, and how often a plan is tried again."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from terracrew.protocol.spec import Step
from terracrew.wording import durations

F = TypeVar("F", bound=Callable[..., Any])
NONE = "none"
_KEY = "terracrew.limit_options"
_MEGABYTES = {"": 1, "MB": 1, "GB": 1024}


class OrNone(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    """Converts a value by a function. `none` removes a limit, and is sent as null."""

    name = "limit"

    def __init__(self, convert: Callable[[str], Any], expected: str) -> None:
        self._convert, self._expected = convert, expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value == NONE:
            return (None,)
        found = self._convert(value)
        if found is None:
            self.fail(f"{value!r} is neither {self._expected} nor `{NONE}`", param, ctx)
        return (found,)


def megabytes(text: str) -> int | None:
    """Return a size such as `512MB` or `2GB` in MB; None if the text is none."""
    number = text.upper().rstrip("MBG").strip()
    unit = text.upper().removeprefix(number).strip()
    return int(number) * _MEGABYTES[unit] if number.isdecimal() and unit in _MEGABYTES else None


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _step(text: str) -> tuple[Step, int | None] | None:
    name, _, value = text.partition("=")
    seconds = durations.parse(value)
    if name not in list(Step) or (seconds is None and value != NONE):
        return None
    return Step(name), seconds


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value in (None, ()):
        return
    limits: dict[str, Any] = ctx.meta.setdefault(_KEY, {})
    assert param.name
    if param.name == "step_seconds":
        limits[param.name] = {str(step): seconds for ((step, seconds),) in value}
    else:
        limits[param.name] = value[0]


def _option(
    name: str, field: str, kind: click.ParamType[Any], metavar: str, text: str, **settings: Any
) -> Callable[[F], F]:
    return click.option(
        name, field, type=kind, metavar=metavar, expose_value=False, callback=_keep, help=text, **settings
    )


_OPTIONS = (
    _option(
        "--time-limit",
        "job_seconds",
        OrNone(durations.parse, "a duration such as 90s, 30m or 24h"),
        "30m|none",
        "How long one attempt of a job may run. Waiting is not counted.",
    ),
    _option(
        "--step-time-limit",
        "step_seconds",
        OrNone(_step, f"STEP=DURATION such as plan=10m or plan={NONE} with a step of {', '.join(Step)}"),
        "plan=10m|plan=none",
        "How long a step may run, with its hooks. Can be repeated.",
        multiple=True,
    ),
    _option(
        "--memory-limit",
        "memory_mb",
        OrNone(megabytes, "a size such as 512MB or 2GB"),
        "2GB|none",
        "How much memory the processes of a job may use together.",
    ),
    _option(
        "--process-limit",
        "processes",
        OrNone(_count, "a number"),
        "N|none",
        "How many processes and threads a job may have at once (5,000 if nothing is set).",
    ),
    _option(
        "--plan-retries",
        "plan_retries",
        OrNone(_count, "a number"),
        "N|none",
        "How often a step before the change is tried again after an error that may go away by itself.",
    ),
)


def limits(command: F) -> F:
    """Add the options."""
    for each in reversed(_OPTIONS):
        command = each(command)
    return command


def given() -> dict[str, Any]:
    """Return the limits that were given, as the field of the request."""
    found = click.get_current_context().meta.get(_KEY)
    return {"limits": found} if found else {}
