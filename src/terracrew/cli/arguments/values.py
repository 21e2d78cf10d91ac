"""Values of options: durations (`90s`, `24h`), moments (`7d`, `2026-11-16`), and numbers with their bounds in words."""

from datetime import UTC, datetime, timedelta

import click

from terracrew.wording import durations


class Duration(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    """Converts a number with a unit to seconds."""

    name = "duration"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = durations.parse(value)
        if found is None:
            self.fail(f"{value!r} is not a duration: write 90s, 30m, 24h or 7d", param, ctx)
        return found


class Moment(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    """Converts a moment to the form that the API takes. A time without a time zone is in UTC."""

    name = "moment"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            found = datetime.fromisoformat(value.strip())
        except ValueError:
            found = _ago(value)
        if found is None:
            self.fail(f"{value!r} is not a moment: write 7d, 2026-11-16 or 2026-11-16T08:30", param, ctx)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _ago(value: str) -> datetime | None:
    try:
        return datetime.now(UTC) - timedelta(seconds=Duration().convert(value, None, None))
    except (click.BadParameter, OverflowError):
        return None


class WholeNumber(click.IntRange):
    """A whole number within bounds. The help shows it as N."""

    name = "whole number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        del param, ctx
        return "N"

    def _describe_range(self) -> str:
        return _bounds(self.min, self.max)


class Number(click.FloatRange):
    """A number within bounds. The help shows it as N."""

    name = "number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        del param, ctx
        return "N"

    def _describe_range(self) -> str:
        return _bounds(self.min, self.max, is_open=self.min_open)


def _bounds(low: float | None, high: float | None, *, is_open: bool = False) -> str:
    """Return the bounds in words. With 15 digits, a million is not written as 1e+06."""
    if low is None:
        return f"at most {high:.15g}"
    if high is None:
        return f"more than {low:.15g}" if is_open else f"at least {low:.15g}"
    return f"more than {low:.15g}, at most {high:.15g}" if is_open else f"{low:.15g} to {high:.15g}"


PRIORITIES = WholeNumber(-100, 100)
"""The same bounds as those of the server."""
