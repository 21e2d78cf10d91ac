"""Moments as people write them: how long ago (`7d`), a date (`2026-11-16`), or a date with a time."""

from datetime import UTC, datetime, timedelta

import click

from terracrew.cli.arguments.durations import Duration


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
